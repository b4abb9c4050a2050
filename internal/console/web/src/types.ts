// What the API server serves: discovery, paths and counts of objects.
import { METADATA_LIST, list, send, type OwnerReference } from "./api";
import { Signal } from "./signal";

/** A resource of one group version. */
export interface ApiType {
  group: string; version: string; resource: string; kind: string; namespaced: boolean;
  verbs: string[]; shortNames: string[]; categories: string[]; subresources: string[];
  /** All versions of the group that serve the resource, the preferred one first. */
  versions: string[];
}

const AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/** All types in their preferred version; undefined until discovery has answered. */
export const types = new Signal<ApiType[] | undefined>(undefined);
/** Every type in every version, by key. */
const all = new Map<string, ApiType>();
/** The same by kind; without a version, the preferred one. */
const byKind = new Map<string, ApiType>();
const kindKey = (group: string, version: string, kind: string) => `${group}/${version}/${kind}`;

export const keyOf = (group: string, version: string, resource: string) => `${group || "core"}/${version}/${resource}`;
export const typeKey = (type: ApiType) => keyOf(type.group, type.version, type.resource);

/** The answers of discovery and their hashes, by path. */
const discovered = new Map<string, { etag: string; groups: any[] }>();

/** Asks for the groups of a path; an answer that has not changed is not sent again. */
async function discover(path: string, signal?: AbortSignal): Promise<boolean> {
  const known = discovered.get(path);
  const answer = await send(path, { accept: AGGREGATED, etag: known?.etag, signal });
  if (answer.status === 304) return false;
  discovered.set(path, { etag: answer.headers.get("Etag") ?? "", groups: (await answer.json()).items ?? [] });
  return true;
}

/** What names of groups, versions and resources look like. Others would lead to other paths: an aggregated API server may announce any text. */
const plain = /^\w[-\w.]*$/;

/** Asks discovery; answers that have not changed are not told. */
export async function loadTypes(signal?: AbortSignal): Promise<void> {
  const changed = await Promise.all(["/api", "/apis"].map((path) => discover(path, signal)));
  if (types.value && !changed.includes(true)) return;
  const found: ApiType[] = [];
  all.clear();
  byKind.clear();
  for (const group of [...discovered.values()].flatMap((answer) => answer.groups)) {
    const byResource = new Map<string, ApiType[]>();
    for (const version of group.versions ?? []) {
      for (const resource of version.resources ?? []) {
        if (!resource.responseKind?.kind || ![group.metadata?.name || "core", version.version, resource.resource].every((name) => plain.test(name))) continue;
        const type: ApiType = {
          group: group.metadata?.name ?? "", version: version.version, resource: resource.resource, kind: resource.responseKind.kind,
          namespaced: resource.scope === "Namespaced", verbs: resource.verbs ?? [], shortNames: resource.shortNames ?? [],
          categories: resource.categories ?? [], subresources: (resource.subresources ?? []).map((s: any) => s.subresource), versions: [],
        };
        all.set(typeKey(type), type);
        byResource.set(type.resource, [...(byResource.get(type.resource) ?? []), type]);
      }
    }
    for (const versions of byResource.values()) {
      for (const type of versions) type.versions = versions.map((t) => t.version);
      found.push(versions[0]);
      for (const type of [...versions].reverse()) { byKind.set(kindKey(type.group, type.version, type.kind), type); byKind.set(kindKey(type.group, "", type.kind), type); }
    }
  }
  found.sort((a, b) => order(a.group, b.group) || order(a.kind, b.kind));
  if (JSON.stringify(found) !== JSON.stringify(types.value)) types.value = found;
}

const order = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);

export const findType = (key: string) => all.get(key);

/** Finds the type of an apiVersion and kind, in that version or the preferred one. */
export function typeOfKind(apiVersion: string, kind: string): ApiType | undefined {
  const [group, version] = apiVersion.includes("/") ? apiVersion.split("/") : ["", apiVersion];
  return byKind.get(kindKey(group, version, kind)) ?? byKind.get(kindKey(group, "", kind));
}

export function apiVersion(type: { group: string; version: string }): string {
  return type.group ? `${type.group}/${type.version}` : type.version;
}

/** The path of a collection, or of an object in it. */
export function pathOf(type: ApiType, namespace?: string, name?: string): string {
  const root = type.group ? `/apis/${type.group}/${type.version}` : `/api/${type.version}`;
  const scope = type.namespaced && namespace ? `/namespaces/${encodeURIComponent(namespace)}` : "";
  return `${root}${scope}/${type.resource}${name ? "/" + encodeURIComponent(name) : ""}`;
}

export const hrefOfType = (type: ApiType) => `#/objects/${typeKey(type)}`;
export const hrefOfObject = (type: ApiType, metadata: { namespace?: string; name: string }) =>
  `#/object/${typeKey(type)}/${type.namespaced ? encodeURIComponent(metadata.namespace ?? "") : "-"}/${encodeURIComponent(metadata.name)}`;
export const hrefOfReference = (reference: OwnerReference, namespace?: string) => {
  const type = typeOfKind(reference.apiVersion, reference.kind);
  return type && hrefOfObject(type, { namespace, name: reference.name });
};

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
    const found = await countNow(entry.type);
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

async function countNow(type: ApiType): Promise<number | string> {
  if (!type.verbs.includes("list")) return "cannot be listed";
  try {
    return await countIn(type);
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
