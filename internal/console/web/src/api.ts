// Requests to the API server, through the console's proxy.
import { Signal } from "./signal";

export interface OwnerReference { apiVersion: string; kind: string; name: string; uid: string; controller?: boolean; blockOwnerDeletion?: boolean }
export interface ManagedFields { manager: string; operation: string; apiVersion: string; time?: string; subresource?: string; fieldsV1?: Record<string, unknown> }
export interface Metadata {
  name: string; namespace?: string; uid: string; resourceVersion: string; creationTimestamp: string; deletionTimestamp?: string;
  generation?: number; labels?: Record<string, string>; annotations?: Record<string, string>; finalizers?: string[];
  ownerReferences?: OwnerReference[]; managedFields?: ManagedFields[];
}
export interface KubeObject { apiVersion: string; kind: string; metadata: Metadata; spec?: any; status?: any; [field: string]: any }
export interface List<T = KubeObject> { items: T[]; metadata: { resourceVersion: string; continue?: string; remainingItemCount?: number } }
export interface Cause { reason?: string; message?: string; field?: string }

/** Whether the page can reach the API server. */
export const connection = new Signal<"up" | "down" | "expired">("up");
/** Grows whenever the API server is back, so that pages load again. */
export const epoch = new Signal(0);

/** An answer of the API server that is a failure, in the words of its Status. */
export class ApiError extends Error {
  constructor(readonly code: number, message: string, readonly reason = "", readonly causes: Cause[] = []) { super(message); }
}

export const METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
export const TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json";

let probing = false;

/** Polls the API server until it answers. */
function probe() {
  if (probing) return;
  probing = true;
  connection.value = "down";
  const again = async () => {
    try {
      const answer = await fetch("/k8s/readyz");
      if (answer.status === 401 && answer.headers.has("X-Console-Session")) { probing = false; connection.value = "expired"; return; }
      if (answer.ok) { probing = false; connection.value = "up"; epoch.value++; return; }
    } catch { /* the console itself is away: try again */ }
    setTimeout(again, 1000);
  };
  setTimeout(again, 500);
}

export interface RequestOptions { method?: string; accept?: string; body?: string; contentType?: string; signal?: AbortSignal; query?: Record<string, string | number | undefined> }

export function withQuery(path: string, query: RequestOptions["query"] = {}): string {
  const values = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined && value !== "") values.set(name, String(value));
  const text = values.toString();
  return text ? `${path}?${text}` : path;
}

/** Sends a request and returns the answer; throws ApiError for a failure. */
export async function send(path: string, options: RequestOptions = {}): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch("/k8s" + withQuery(path, options.query), {
      method: options.method ?? "GET", body: options.body, signal: options.signal,
      headers: { Accept: options.accept ?? "application/json", ...(options.body ? { "Content-Type": options.contentType ?? "application/json" } : {}) },
    });
  } catch (error) {
    if (!options.signal?.aborted) probe();
    throw error instanceof Error && error.name === "AbortError" ? error : new ApiError(0, "the console does not answer");
  }
  if (answer.ok) return answer;
  if (answer.status === 401 && answer.headers.has("X-Console-Session")) connection.value = "expired";
  if (answer.status === 502) probe();
  const text = await answer.text();
  let status: any;
  try { status = JSON.parse(text); } catch { /* not a Status */ }
  if (status?.kind === "Status") throw new ApiError(answer.status, status.message ?? status.reason, status.reason, status.details?.causes);
  throw new ApiError(answer.status, text.trim() || answer.statusText);
}

/** Lists one page; an empty list may come without items. */
export async function list<T = KubeObject>(path: string, options: RequestOptions = {}): Promise<List<T>> {
  const answer = await get<List<T>>(path, options);
  return { ...answer, items: answer.items ?? [] };
}

export async function get<T = KubeObject>(path: string, options: RequestOptions = {}): Promise<T> {
  return (await send(path, options)).json();
}

export interface WatchEvent<T> { type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK" | "ERROR"; object: T }

/** Follows a watch until it ends; the caller lists and watches again. Throws when the server reports an error. */
export async function watch<T>(path: string, query: RequestOptions["query"], accept: string, signal: AbortSignal, onEvent: (event: WatchEvent<T>) => void): Promise<void> {
  const answer = await send(path, { query: { ...query, watch: "true", allowWatchBookmarks: "true" }, accept, signal });
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop()!;
    for (const line of lines) {
      if (!line) continue;
      const event = JSON.parse(line) as WatchEvent<any>;
      if (event.type === "ERROR") throw new ApiError(event.object.code ?? 0, event.object.message ?? "the watch ended", event.object.reason);
      onEvent(event);
    }
  }
}

/** Waits; ends early when the signal is aborted. */
export function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}

/** Runs the tasks, some at a time. */
export async function parallel<T>(items: T[], limit: number, task: (item: T) => Promise<void>): Promise<void> {
  const queue = [...items];
  await Promise.all(Array.from({ length: Math.min(limit, queue.length) }, async () => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) await task(item);
  }));
}
