// What the API server serves: discovery, paths and counts of objects.
import { METADATA_LIST, get, list, type OwnerReference } from "./api";
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

export const keyOf = (group: string, version: string, resource: string) => `${group || "core"}/${version}/${resource}`;
export const typeKey = (type: ApiType) => keyOf(type.group, type.version, type.resource);

/** Asks discovery; answers that have not changed are not told. */
export async function loadTypes(signal?: AbortSignal): Promise<void> {
  const answers = await Promise.all(["/api", "/apis"].map((path) => get<any>(path, { accept: AGGREGATED, signal })));
  const found: ApiType[] = [];
  all.clear();
  for (const group of answers.flatMap((answer) => answer.items ?? [])) {
    const byResource = new Map<string, ApiType[]>();
    for (const version of group.versions ?? []) {
      for (const resource of version.resources ?? []) {
        if (!resource.responseKind?.kind) continue;
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
    }
  }
  found.sort((a, b) => a.group.localeCompare(b.group) || a.kind.localeCompare(b.kind));
  if (JSON.stringify(found) !== JSON.stringify(types.value)) types.value = found;
}

export const findType = (key: string) => all.get(key);

/** Finds the type of an apiVersion and kind. */
export function typeOfKind(apiVersion: string, kind: string): ApiType | undefined {
  const [group, version] = apiVersion.includes("/") ? apiVersion.split("/") : ["", apiVersion];
  for (const type of all.values()) if (type.group === group && type.version === version && type.kind === kind) return type;
  return types.value?.find((type) => type.group === group && type.kind === kind);
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
const counting = new Map<string, Promise<void>>();
let slots = 6;
const waiting: (() => void)[] = [];

/** Counts the objects of a type by a list of one, unless it was counted. */
export function count(type: ApiType): Promise<void> {
  const key = typeKey(type);
  let running = counting.get(key);
  if (!running) {
    running = countNow(type).then((result) => { pending.set(key, result); flush(); });
    counting.set(key, running);
  }
  return running;
}

/** Forgets the counts, so that they are asked for again. */
export function forgetCounts() { counting.clear(); }

const pending = new Map<string, number | string>();
let flushing = false;
/** Tells many counts at once. */
function flush() {
  if (flushing) return;
  flushing = true;
  requestAnimationFrame(() => {
    flushing = false;
    counts.value = new Map([...counts.value, ...pending]);
    pending.clear();
  });
}

async function countNow(type: ApiType): Promise<number | string> {
  if (!type.verbs.includes("list")) return "cannot be listed";
  if (slots === 0) await new Promise<void>((resolve) => waiting.push(resolve));
  else slots--;
  try {
    const page = await list(pathOf(type), { accept: METADATA_LIST, query: { limit: 1 } });
    return page.items.length + (page.metadata.remainingItemCount ?? 0);
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  } finally {
    const next = waiting.shift();
    if (next) next(); else slots++;
  }
}
