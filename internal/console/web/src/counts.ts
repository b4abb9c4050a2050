// How many objects a type has: from the server's own counts, or by lists of one.
import { ApiError, METADATA_LIST, get, list } from "./api";
import { rulesIn, matches, scope, type Rule } from "./scope";
import { Signal } from "./signal";
import { pathOf, typeKey, types, type ApiType } from "./types";

/** The status of kube-hyper-mini; null if it is another API server or the user may not read it. */
export const status = new Signal<any>(undefined);
/** The groups whose objects another API server has. */
let remote = new Set<string>();
/** What the user may do in the namespace of the pages; undefined if the authorizer does not list all rules. */
export const rules = new Signal<Rule[] | undefined>(undefined);

/** Reads what the server counts, or which types the user may list. */
export async function loadCounts(signal: AbortSignal): Promise<void> {
  if (status.value !== null) {
    try {
      const found = await get<any>("/kube-hyper-mini/status", { signal });
      if (found.remote?.apiServices > 0) {
        const services = await list("/apis/apiregistration.k8s.io/v1/apiservices", { signal });
        remote = new Set(services.items.filter((item) => item.spec.service).map((item) => item.spec.group));
      }
      status.value = found;
      counts.value = new Map([...counts.value].filter(([key]) => !byServer.has(key)).concat(serverCounts()));
    } catch (error) {
      if (!(error instanceof ApiError) || (error.code !== 403 && error.code !== 404)) return;
      status.value = null;
    }
  }
  if (status.value === null) {
    const found = await rulesIn(scope.value || "default").catch(() => undefined);
    const known = found && !found.incomplete ? found.rules : undefined;
    if (JSON.stringify(known) !== JSON.stringify(rules.value)) rules.value = known;
  }
}

/** The types whose counts are the server's. */
let byServer = new Set<string>();

/** The number of objects in all namespaces, if the server has said it. */
export function totalOf(type: ApiType): number | undefined {
  const found = status.value?.objectsByType;
  if (!found || remote.has(type.group)) return undefined;
  return found[type.group ? `${type.resource}.${type.group}` : type.resource] ?? 0;
}

/** Counts of the server that hold where the pages look: in all namespaces, or none at all. */
function serverCounts(): [string, number][] {
  const found: [string, number][] = [];
  for (const type of types.value ?? []) {
    const total = type.verbs.includes("list") ? totalOf(type) : undefined;
    if (total !== undefined && (total === 0 || !scope.value || !type.namespaced)) found.push([typeKey(type), total]);
  }
  byServer = new Set(found.map(([key]) => key));
  return found;
}

/** Types that may have objects that the user may list. */
export const listable = (type: ApiType) => type.verbs.includes("list") && totalOf(type) !== 0 && (!rules.value || rules.value.some((rule) => matches(rule, "list", type.group, type.resource)));

scope.subscribe(() => { counted.clear(); pending.clear(); counts.value = new Map(serverCounts()); });
types.subscribe(() => { counts.value = new Map([...counts.value, ...serverCounts()]); });

/** Counts of objects by type; a string says why there is none. */
export const counts = new Signal<ReadonlyMap<string, number | string>>(new Map());
/** When they were counted, and the ones that wait, the latest last. */
const counted = new Map<string, number>();
const waiting = new Map<string, { type: ApiType; done: (() => void)[] }>();
const COUNT_AGE = 15_000, COUNTERS = 3;
let counters = 0;

/** Counts the objects of a type by a list of one, unless it was counted a moment ago. What was asked for last is counted first: it is in view. */
export function count(type: ApiType): Promise<void> {
  const key = typeKey(type);
  if (byServer.has(key)) return Promise.resolve();
  if (Date.now() - (counted.get(key) ?? 0) < COUNT_AGE) return Promise.resolve();
  return new Promise((resolve) => {
    const entry = waiting.get(key) ?? { type, done: [] };
    entry.done.push(resolve);
    waiting.delete(key);
    waiting.set(key, entry);
    if (counters < COUNTERS) void work();
  });
}

/** No longer counts a type that has not begun to be counted. */
export function uncount(type: ApiType) {
  const key = typeKey(type), entry = waiting.get(key);
  waiting.delete(key);
  entry?.done.forEach((done) => done());
}

async function work() {
  counters++;
  while (waiting.size > 0) {
    const key = [...waiting.keys()].at(-1)!, entry = waiting.get(key)!;
    waiting.delete(key);
    counted.set(key, Date.now());
    const of = scope.value, found = await countNow(entry.type, of);
    if (of !== scope.value) { counted.delete(key); entry.done.forEach((done) => done()); continue; }
    if (typeof found === "string" && entry.type.verbs.includes("list")) counted.delete(key); // may be counted again at once
    pending.set(key, found);
    flush();
    entry.done.forEach((done) => done());
  }
  counters--;
}

const pending = new Map<string, number | string>();
/** Whether the last count of a type has failed. */
export const miscounted = (type: ApiType) => typeof (pending.get(typeKey(type)) ?? counts.value.get(typeKey(type))) === "string";
let flushing = false;
/** Tells many counts at once. */
function flush() {
  if (flushing) return;
  flushing = true;
  setTimeout(() => {
    flushing = false;
    counts.value = new Map([...counts.value, ...pending]);
    pending.clear();
  }, 100);
}

/** Asks for the number of objects in a namespace or everywhere, by a list of one. */
export async function countIn(type: ApiType, namespace?: string, signal?: AbortSignal): Promise<number> {
  const page = await list(pathOf(type, namespace), { accept: METADATA_LIST, query: { limit: 1 }, signal });
  return page.items.length + (page.metadata.remainingItemCount ?? 0);
}

async function countNow(type: ApiType, namespace = ""): Promise<number | string> {
  if (!type.verbs.includes("list")) return "cannot be listed";
  if (!listable(type)) return totalOf(type) === 0 ? 0 : "you may not list it";
  try {
    return await countIn(type, namespace);
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
