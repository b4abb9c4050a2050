// Requests to the API server, through the console's proxy.
import { Signal } from "./signal";
import { fromJson } from "./text";

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

/** The control plane that the page shows; empty for the server itself. It is a part of the address, so that a link and a reload keep it. */
export const plane = /^\/clusters\/([a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)$/.exec(location.pathname)?.[1] ?? "";
/** Where the console forwards requests to the API of what the page shows. */
const api = "/k8s" + (plane && `/clusters/${plane}`);

/** Whether the page can use the API server: `down`, it does not answer; `away`, the console does not; `other`, its certificate is not that of the kubeconfig; `expired`, this session has ended; `refused`, it does not accept the kubeconfig's credentials. */
type Connection = "up" | "down" | "away" | "other" | "expired" | "refused";
export const connection = new Signal<Connection>("up");
/** Grows whenever the API server can be used again, so that pages load again. */
export const epoch = new Signal(0);

/** An answer of the API server that is a failure, in the words of its Status. `next` continues a list whose token has expired. */
export class ApiError extends Error {
  constructor(readonly code: number, message: string, readonly reason = "", readonly causes: Cause[] = [], readonly next = "") { super(message); }
}

/** The code of a failure that is none of the API server's: an answer that is not what was asked for. */
const UNREADABLE = -1;

/** Whether the page is in view. A hidden page asks nothing: browsers allow six connections to a server, for all of its pages. */
export const inView = new Signal(document.visibilityState === "visible");
document.addEventListener("visibilitychange", () => { inView.value = document.visibilityState === "visible"; });

/** Runs a task while the page is in view, and again when it comes back into view, until the task ends by itself. */
export async function whileInView(signal: AbortSignal, task: (signal: AbortSignal) => Promise<void>): Promise<void> {
  while (!signal.aborted) {
    if (!inView.value) await new Promise<void>((resolve) => {
      const end = () => { leave(); signal.removeEventListener("abort", end); resolve(); };
      const leave = inView.subscribe(end);
      signal.addEventListener("abort", end);
    });
    if (signal.aborted) return;
    const hidden = new AbortController();
    const leave = inView.subscribe(() => { if (!inView.value) hidden.abort(); });
    try {
      await task(AbortSignal.any([signal, hidden.signal]));
      if (!hidden.signal.aborted) return;
    } catch (error) {
      if (!hidden.signal.aborted || signal.aborted) throw error;
    } finally { leave(); }
  }
}

/** The key of this session: the cookie alone reaches other ports of this machine too. */
const key = () => { try { return localStorage.getItem("key") ?? ""; } catch { return ""; } };

export const METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
export const TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json";

let probing = false;
const forever = new AbortController().signal;

/** Asks until the API server can be used: a path of its own, because a remote API server behind it may be the one that fails. */
async function probe(path: "/readyz" | "/version", failing?: "down" | "away" | "other") {
  if (probing) return;
  probing = true;
  if (failing) { connection.value = failing; await pause(500, forever); }
  await whileInView(forever, async (shown) => {
    while (!shown.aborted) {
      const state = await ask(path, shown);
      if (shown.aborted) return;
      if (state === "up" && failing) epoch.value++;
      connection.value = state;
      if (state === "up" || state === "expired") return;
      failing = "down";
      await pause(1000, shown);
    }
  });
  probing = false;
}

/** What an answer means for all requests; undefined if it is about its own request. The headers are the console's. */
function failureOf(answer: Response): Exclude<Connection, "up"> | undefined {
  if (answer.headers.has("X-Console-Session")) return "expired";
  if (answer.status === 401) return "refused";
  return answer.status !== 502 ? undefined : answer.headers.has("X-Console-Server") ? "other" : "down";
}

/** Whether the API server can be used now. Who may not read the path is known to it. */
async function ask(path: string, signal: AbortSignal): Promise<Connection> {
  try {
    const answer = await fetch(api + path, { headers: { "X-Console-Key": key() }, signal });
    await answer.body?.cancel();
    return answer.ok || answer.status === 403 ? "up" : failureOf(answer) ?? "down";
  } catch {
    return "away";
  }
}

export interface RequestOptions { method?: string; accept?: string; body?: string; contentType?: string; etag?: string; signal?: AbortSignal; query?: Record<string, string | number | undefined>; /** Integers above 2^53 are BigInt, with all of their digits. */ exact?: boolean; /** Asks the server itself, whatever control plane the page shows. */ ofServer?: boolean }

export function withQuery(path: string, query: RequestOptions["query"] = {}): string {
  const values = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined && value !== "") values.set(name, String(value));
  const text = values.toString();
  return text ? `${path}?${text}` : path;
}

/** The address of a path. A name with dots or slashes must not lead elsewhere: such a path is refused, because the browser would change it. */
function address(path: string, { query, ofServer }: RequestOptions): string {
  const root = ofServer ? "/k8s" : api, [plain] = path.split("?"), wanted = root + plain;
  if (new URL(wanted, location.origin).pathname !== wanted) throw new ApiError(400, `${plain} is not a path of the API`);
  return root + withQuery(path, query);
}

/** Sends a request and returns the answer; throws ApiError for a failure. With an etag, the answer may be 304. */
export async function send(path: string, options: RequestOptions = {}): Promise<Response> {
  const url = address(path, options);
  let answer: Response;
  try {
    answer = await fetch(url, {
      method: options.method ?? "GET", body: options.body, signal: options.signal,
      headers: {
        Accept: options.accept ?? "application/json", "X-Console-Key": key(),
        ...(options.body ? { "Content-Type": options.contentType ?? "application/json" } : {}), ...(options.etag ? { "If-None-Match": options.etag } : {}),
      },
    });
  } catch (error) {
    if (!options.signal?.aborted) void probe("/readyz", "away");
    throw error instanceof Error && error.name === "AbortError" ? error : new ApiError(0, "the console does not answer");
  }
  if (answer.ok || (options.etag && answer.status === 304)) return answer;
  const failure = failureOf(answer);
  if (failure === "expired") connection.value = failure;
  else if (failure === "refused") void probe("/version");
  else if (failure) void probe("/readyz", failure);
  const text = await answer.text();
  let status: any;
  try { status = JSON.parse(text); } catch { /* not a Status */ }
  if (status?.kind === "Status") throw new ApiError(answer.status, status.message ?? status.reason, status.reason, status.details?.causes, status.metadata?.continue);
  throw new ApiError(answer.status, text.trim() || answer.statusText);
}

/** Lists one page; an empty list may come without items. */
export async function list<T = KubeObject>(path: string, options: RequestOptions = {}): Promise<List<T>> {
  const answer = await get<List<T>>(path, options);
  return { ...answer, items: answer.items ?? [] };
}

export async function get<T = KubeObject>(path: string, options: RequestOptions = {}): Promise<T> {
  const answer = await send(path, options);
  return options.exact ? fromJson(await answer.text()) : answer.json();
}

export interface WatchEvent<T> { type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK" | "ERROR"; object: T }

/** Follows a watch until it ends; the caller lists and watches again. Throws when the server reports an error. */
async function watch<T>(path: string, { query, accept, signal, exact }: RequestOptions, onEvent: (event: WatchEvent<T>) => void): Promise<void> {
  const answer = await send(path, { query: { ...query, watch: "true", allowWatchBookmarks: "true" }, accept, signal });
  const reader = answer.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const lines = (rest + value).split("\n");
      rest = lines.pop()!;
      for (const line of lines) {
        if (!line) continue;
        const event: WatchEvent<any> = exact ? fromJson(line) : JSON.parse(line);
        if (event.type === "ERROR") throw new ApiError(event.object.code ?? 0, event.object.message ?? "the watch ended", event.object.reason);
        onEvent(event);
      }
    }
  } finally {
    void reader.cancel().catch(() => {}); // of a stream that has failed, or ended
  }
}

/** The pause between two loads of what cannot be watched, in milliseconds. */
const LOAD_AGAIN = 10_000;

/** What is followed: `load` returns the version to watch from, `onEvent` that of an event. */
export interface Followed<T> {
  path: string; query?: RequestOptions["query"]; accept: string; exact?: boolean; watchable: boolean;
  load: (signal: AbortSignal) => Promise<string>; onEvent: (event: WatchEvent<T>) => string | undefined; onError: (error: Error) => void;
}

/** Loads, and follows changes while the page is in view; loads again when they cannot be followed, or not any further. */
export async function follow<T>({ path, query, accept, exact, watchable, load, onEvent, onError }: Followed<T>, signal: AbortSignal): Promise<void> {
  let version = "";
  while (!signal.aborted) {
    try {
      await whileInView(signal, async (shown) => {
        while (!shown.aborted) {
          version ||= await load(shown);
          if (!watchable) {
            await pause(LOAD_AGAIN, shown);
            version = "";
            continue;
          }
          await watch<T>(path, { query: { ...query, resourceVersion: version }, accept, exact, signal: shown }, (event) => { version = onEvent(event) || version; });
          await pause(200, shown);
        }
      });
      return;
    } catch (error) {
      if (signal.aborted) return;
      const code = error instanceof ApiError ? error.code : version ? 0 : UNREADABLE; // a watch may break off
      if (code === 410) version = "";
      else if (code === 403 && version) watchable = false; // the user may read, but not watch
      // A server that is busy, or still fills its cache for the watch, has the objects all the same.
      else if (code !== 0 && code !== 502 && !(code === 429 && version)) { version = ""; onError(error as Error); }
      await pause(code === 410 ? 200 : 2000, signal);
    }
  }
}

/** Waits; ends early when the signal is aborted. */
export function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => { clearTimeout(timer); signal.removeEventListener("abort", end); resolve(); };
    const timer = setTimeout(end, milliseconds);
    signal.addEventListener("abort", end);
    if (signal.aborted) end();
  });
}

/** Runs the tasks, some at a time. */
export async function parallel<T>(items: T[], limit: number, task: (item: T) => Promise<void>): Promise<void> {
  const queue = [...items];
  await Promise.all(Array.from({ length: Math.min(limit, queue.length) }, async () => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) await task(item);
  }));
}
