// What the API server serves: discovery and paths.
import { send, type OwnerReference } from "./api";
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

/** Whether a type has the words in its names. */
export function matchesType(type: ApiType, words: string[]): boolean {
  const name = `${type.kind} ${type.resource} ${type.group} ${type.shortNames.join(" ")} ${type.categories.join(" ")}`.toLowerCase();
  return words.every((word) => name.includes(word));
}

/** The key of the type of the server's control planes. */
export const PLANES = "planes.kube-hyper-mini.io/v1alpha1/controlplanes";
export const isPlanes = (type: ApiType) => typeKey(type) === PLANES;

/** Whether a type is one of Kubernetes' own or of this server's, and not an installed one. */
export const isBuiltIn = (type: ApiType) => !type.group.includes(".") || /(^|\.)(k8s\.io|kube-hyper-mini\.io)$/.test(type.group) && !/^(gateway|policy)\.networking\.|x-k8s/.test(type.group);
