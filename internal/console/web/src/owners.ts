// Who made an object, and what depends on it.
import { METADATA_LIST, get, list, parallel, type KubeObject, type Metadata, type OwnerReference } from "./api";
import { count, counts, pathOf, typeKey, typeOfKind, types, type ApiType } from "./types";

/** An object of the tree. */
export interface Related { type: ApiType; metadata: Metadata }
export interface Node { label: string; kind: string; related?: Related; object?: KubeObject; missing?: string; self?: boolean; children: Node[] }

const MAX_LISTED = 5000;

/** Lists the metadata of a type, in pages, up to a bound. */
async function listMetadata(type: ApiType, namespace: string | undefined, signal: AbortSignal): Promise<Metadata[]> {
  const found: Metadata[] = [];
  let next: string | undefined;
  do {
    const page = await list(pathOf(type, namespace), { accept: METADATA_LIST, query: { limit: 1000, continue: next }, signal });
    found.push(...page.items.map((item) => item.metadata));
    next = page.metadata.continue;
  } while (next && found.length < MAX_LISTED);
  return found;
}

/** Lists everything that has an owner, by the owner's uid, among the types that hold objects. */
async function byOwner(namespace: string | undefined, signal: AbortSignal): Promise<Map<string, Related[]>> {
  const owned = new Map<string, Related[]>();
  const candidates = (types.value ?? []).filter((type) => type.verbs.includes("list") && type.verbs.includes("delete")
    && type.group !== "events.k8s.io" && !(type.group === "" && type.resource === "events") && (type.namespaced || !namespace));
  await parallel(candidates, 8, async (type) => {
    await count(type);
    const known = counts.value.get(typeKey(type));
    if (signal.aborted || known === 0) return;
    try {
      for (const metadata of await listMetadata(type, namespace, signal)) {
        for (const owner of metadata.ownerReferences ?? []) owned.set(owner.uid, [...(owned.get(owner.uid) ?? []), { type, metadata }]);
      }
    } catch (error) {
      if (signal.aborted) throw error; // a type that may not be listed hides its objects
    }
  });
  return owned;
}

/** The namespace that all dependents of the objects are in; none if one of them is of the whole cluster. */
const scopeOf = (objects: Metadata[]) => {
  const namespaces = new Set(objects.map((object) => object.namespace ?? ""));
  return namespaces.size === 1 ? [...namespaces][0] || undefined : undefined;
};

/** Everything that depends on the objects, directly or not. */
export async function findDependents(objects: Metadata[], signal: AbortSignal): Promise<Related[]> {
  const owned = await byOwner(scopeOf(objects), signal);
  const found = new Map<string, Related>();
  const visit = (uid: string) => {
    for (const item of owned.get(uid) ?? []) if (!found.has(item.metadata.uid)) { found.set(item.metadata.uid, item); visit(item.metadata.uid); }
  };
  for (const object of objects) visit(object.uid);
  return [...found.values()];
}

/** References that Crossplane keeps in specs: claim to composite to managed resources. */
export function specReferences(object: KubeObject): { apiVersion: string; kind: string; name: string; namespace?: string }[] {
  const spec = object.spec ?? {};
  const candidates = [spec.resourceRef, ...(spec.resourceRefs ?? []), ...(spec.crossplane?.resourceRefs ?? [])];
  return candidates.filter((reference) => reference && typeof reference.apiVersion === "string" && typeof reference.kind === "string" && typeof reference.name === "string");
}

const reference = (apiVersion: string, kind: string, name: string): Node => ({ label: name, kind, missing: `${apiVersion} ${kind} ${name}`, children: [] });

/** The tree of an object: its owners above it, what depends on it below. */
export async function tree(type: ApiType, object: KubeObject, signal: AbortSignal): Promise<Node> {
  const owned = await byOwner(object.metadata.namespace, signal);
  const seen = new Set<string>();
  const below = async (item: Related, full: KubeObject | undefined): Promise<Node> => {
    const node: Node = { label: item.metadata.name, kind: item.type.kind, related: item, object: full, self: item.metadata.uid === object.metadata.uid, children: [] };
    if (seen.has(item.metadata.uid)) return node;
    seen.add(item.metadata.uid);
    for (const child of owned.get(item.metadata.uid) ?? []) {
      if (!seen.has(child.metadata.uid)) node.children.push(await below(child, await read(child, signal)));
    }
    for (const target of full ? specReferences(full) : []) {
      const targetType = typeOfKind(target.apiVersion, target.kind);
      const found = targetType && await get(pathOf(targetType, target.namespace ?? item.metadata.namespace, target.name), { signal }).catch(() => undefined);
      if (found && seen.has(found.metadata.uid)) continue;
      node.children.push(found && targetType ? await below({ type: targetType, metadata: found.metadata }, found) : reference(target.apiVersion, target.kind, target.name));
    }
    return node;
  };
  let top = await below({ type, metadata: object.metadata }, object);
  let current: KubeObject = object;
  for (let depth = 0; depth < 10; depth++) {
    const owner = ownerOf(current);
    if (!owner) break;
    const ownerType = typeOfKind(owner.apiVersion, owner.kind);
    const found = ownerType && await get(pathOf(ownerType, current.metadata.namespace, owner.name), { signal }).catch(() => undefined);
    const node: Node = found && ownerType ? { label: owner.name, kind: owner.kind, related: { type: ownerType, metadata: found.metadata }, object: found, children: [top] }
      : { ...reference(owner.apiVersion, owner.kind, owner.name), children: [top] };
    top = node;
    if (!found || seen.has(found.metadata.uid)) break;
    seen.add(found.metadata.uid);
    current = found;
  }
  return top;
}

/** The controller, or the first owner. */
function ownerOf(object: KubeObject): OwnerReference | undefined {
  const owners = object.metadata.ownerReferences ?? [];
  const claim = object.spec?.claimRef;
  return owners.find((owner) => owner.controller) ?? owners[0]
    ?? (claim?.apiVersion && claim?.kind && claim?.name ? { apiVersion: claim.apiVersion, kind: claim.kind, name: claim.name, uid: "" } : undefined);
}

const read = (item: Related, signal: AbortSignal) =>
  get(pathOf(item.type, item.metadata.namespace, item.metadata.name), { signal }).catch(() => undefined);

/** Whether an object is well, by its Ready or Available condition. */
export function health(object?: KubeObject): "good" | "bad" | "warn" | "idle" {
  const conditions: any[] = Array.isArray(object?.status?.conditions) ? object!.status.conditions : [];
  if (object?.metadata.deletionTimestamp) return "warn";
  const main = conditions.find((condition) => condition.type === "Ready" || condition.type === "Available") ?? conditions.find((condition) => condition.type === "Synced" || condition.type === "Established");
  return !main ? "idle" : main.status === "True" ? "good" : main.status === "False" ? "bad" : "warn";
}
