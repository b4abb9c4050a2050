// Who made an object, and what depends on it: by owner references, which the
// garbage collector follows, and by the references of Crossplane's claims and
// composite resources, which its controllers follow.
import { METADATA_LIST, get, list, parallel, type KubeObject, type Metadata } from "./api";
import { countIn, listable } from "./counts";
import { pathOf, typeOfKind, types, type ApiType } from "./types";

/** An object of the tree. */
export interface Related { type: ApiType; metadata: Metadata }
export interface Node {
  label: string; kind: string; related?: Related; object?: KubeObject; self?: boolean;
  /** Why there is no object: its apiVersion, kind and name. */
  missing?: string;
  /** That the parent names it in its spec and does not own it. */
  referred?: boolean;
  /** Stands for this many objects that are not drawn. */
  more?: number;
  children: Node[];
}

/** Bounds of what is read and drawn. */
const MAX_LISTED = 10_000, MAX_CHILDREN = 30, MAX_NODES = 300;
const CONNECTIONS = 4;

/** Owned objects by the uid of their owners. `partial` names types with more objects than are read. */
export interface Owned { byOwner: Map<string, Related[]>; partial: string[] }

/** Lists everything that has an owner, in a namespace or everywhere. */
async function listOwned(namespace: string | undefined, signal: AbortSignal): Promise<Owned> {
  const found: Owned = { byOwner: new Map(), partial: [] };
  const candidates = (types.value ?? []).filter((type) => listable(type) && type.verbs.includes("delete")
    && type.group !== "events.k8s.io" && !(type.group === "" && type.resource === "events") && (type.namespaced || !namespace));
  await parallel(candidates, CONNECTIONS, async (type) => {
    let next: string | undefined, seen = 0;
    try {
      do {
        const page = await list(pathOf(type, namespace), { accept: METADATA_LIST, query: { limit: 1000, continue: next }, signal });
        for (const { metadata } of page.items) {
          for (const owner of metadata.ownerReferences ?? []) {
            const owned = found.byOwner.get(owner.uid);
            if (owned) owned.push({ type, metadata }); else found.byOwner.set(owner.uid, [{ type, metadata }]);
          }
        }
        seen += page.items.length;
        next = page.metadata.continue;
      } while (next && seen < MAX_LISTED);
      if (next) found.partial.push(type.kind);
    } catch (error) {
      if (signal.aborted) throw error; // a type that may not be listed hides its objects
    }
  });
  return found;
}

export interface Reference { apiVersion: string; kind: string; name: string; namespace?: string }
const isReference = (value: any): value is Reference => typeof value?.apiVersion === "string" && typeof value?.kind === "string" && typeof value?.name === "string";

/** The objects that a claim or a composite resource of Crossplane is made of. */
export function specReferences(type: ApiType, object: KubeObject): Reference[] {
  const spec = object.spec ?? {};
  return [
    // Others have a field of this name for what they apply to.
    ...(type.categories.includes("claim") ? [spec.resourceRef] : []),
    ...[spec.resourceRefs, spec.crossplane?.resourceRefs].flatMap((references) => (Array.isArray(references) ? references : [])),
  ].filter(isReference);
}

/** The object that made this one: its controller, its first owner, or the claim of a composite resource. */
function parentOf(object: KubeObject): (Reference & { uid?: string }) | undefined {
  const owners = object.metadata.ownerReferences ?? [];
  const owner = owners.find((each) => each.controller) ?? owners[0];
  if (owner) return { ...owner, namespace: object.metadata.namespace };
  return isReference(object.spec?.claimRef) ? object.spec.claimRef : undefined;
}

type Found = Related & { object: KubeObject };

/** Reads what a reference leads to; undefined if it is not there or is another object of that name. */
async function follow(reference: Reference & { uid?: string }, namespace: string | undefined, signal: AbortSignal): Promise<Found | undefined> {
  const type = typeOfKind(reference.apiVersion, reference.kind);
  if (!type) return undefined;
  const object = await get(pathOf(type, reference.namespace ?? namespace, reference.name), { signal }).catch(() => undefined);
  if (!object || (reference.uid && reference.uid !== object.metadata.uid)) return undefined;
  return { type, metadata: object.metadata, object };
}

/** What the references in specs lead to, and on from there. */
async function referred(start: Found[], signal: AbortSignal): Promise<Found[]> {
  const found = new Map<string, Found>();
  const known = new Set(start.map((each) => each.metadata.uid));
  for (let queue = [...start]; queue.length > 0 && found.size < MAX_NODES;) {
    const from = queue.shift()!;
    await parallel(specReferences(from.type, from.object).slice(0, MAX_NODES), CONNECTIONS, async (reference) => {
      const target = await follow(reference, from.metadata.namespace, signal);
      if (!target || known.has(target.metadata.uid)) return;
      known.add(target.metadata.uid);
      found.set(target.metadata.uid, target);
      queue.push(target);
    });
  }
  return [...found.values()];
}

/** The namespace that all dependents of the objects are in; none if one of them is of the whole cluster. */
function scopeOf(objects: Metadata[]): string | undefined {
  const namespaces = new Set(objects.map((object) => object.namespace ?? ""));
  return namespaces.size === 1 ? [...namespaces][0] || undefined : undefined;
}

/** What a deletion takes along. */
export interface Consequences {
  /** What the garbage collector deletes: all of its owners go. */
  collected: Related[];
  /** Direct dependents, which lose this owner if they are orphaned. */
  direct: Related[];
  /** Dependents that another owner keeps. */
  kept: Related[];
  /** What a controller deletes that follows references in specs, with its dependents. */
  controlled: Related[];
  /** What is in a namespace, or of a type that a CRD defines: all of it goes. */
  contained: Contained[];
  partial: string[];
}

/** A number of objects; undefined if they could not be counted. */
export interface Contained { type: ApiType; count: number | undefined }

/** Counts what namespaces hold, and the objects of types that CRDs define. */
export async function contained(type: ApiType, objects: Metadata[], signal: AbortSignal): Promise<Contained[]> {
  const known = types.value ?? [], found = new Map<ApiType, number | undefined>();
  const tasks = objects.slice(0, 20).flatMap(({ name }): { type: ApiType; namespace?: string }[] => {
    if (type.group === "" && type.resource === "namespaces") return known.filter((each) => each.namespaced && listable(each) && each.verbs.includes("delete") && each.group !== "events.k8s.io").map((each) => ({ type: each, namespace: name }));
    if (type.group === "apiextensions.k8s.io" && type.resource === "customresourcedefinitions") return known.filter((each) => `${each.resource}.${each.group}` === name).map((each) => ({ type: each }));
    return [];
  });
  await parallel(tasks, CONNECTIONS, async (task) => {
    const count = await countIn(task.type, task.namespace, signal).catch(() => undefined);
    if (count !== 0) found.set(task.type, count === undefined ? undefined : count + (found.get(task.type) ?? 0));
  });
  return [...found].map(([each, count]) => ({ type: each, count })).sort((a, b) => order(a.type.kind, b.type.kind));
}

export async function consequences(type: ApiType, objects: Metadata[], signal: AbortSignal): Promise<Consequences> {
  const start: Found[] = [];
  await parallel(objects.slice(0, 50), CONNECTIONS, async (metadata) => {
    const object = await get(pathOf(type, metadata.namespace, metadata.name), { signal }).catch(() => undefined);
    if (object) start.push({ type, metadata, object });
  });
  const references = await referred(start, signal);
  const { byOwner, partial } = await listOwned(scopeOf([...objects, ...references.map((each) => each.metadata)]), signal);
  const roots = objects.map((each) => each.uid);
  const direct = new Map(roots.flatMap((uid) => byOwner.get(uid) ?? []).map((item) => [item.metadata.uid, item]));
  const collected = collect(byOwner, roots);
  const reach = new Set([...roots, ...collected.keys()]);
  const kept = [...reach].flatMap((uid) => byOwner.get(uid) ?? []).filter((item) => !reach.has(item.metadata.uid));
  const elsewhere = references.filter((each) => !reach.has(each.metadata.uid));
  const controlled = new Map<string, Related>(elsewhere.map((each) => [each.metadata.uid, each]));
  for (const [uid, item] of collect(byOwner, [...reach, ...controlled.keys()])) if (!reach.has(uid)) controlled.set(uid, item);
  return {
    contained: await contained(type, objects, signal), collected: sorted(collected), direct: sorted(direct), controlled: sorted(controlled),
    kept: sorted(new Map(kept.filter((item) => !controlled.has(item.metadata.uid)).map((item) => [item.metadata.uid, item]))), partial,
  };
}

const sorted = (found: Map<string, Related>) => [...found.values()].sort((a, b) => order(a.type.kind, b.type.kind) || order(a.metadata.name, b.metadata.name));

/** The dependents that go with the roots: those all of whose owners go. */
function collect(byOwner: Map<string, Related[]>, roots: string[]): Map<string, Related> {
  const going = new Set(roots), found = new Map<string, Related>();
  for (let changed = true; changed;) {
    changed = false;
    for (const uid of [...going]) for (const item of byOwner.get(uid) ?? []) {
      if (going.has(item.metadata.uid) || !item.metadata.ownerReferences!.every((owner) => going.has(owner.uid))) continue;
      going.add(item.metadata.uid);
      found.set(item.metadata.uid, item);
      changed = true;
    }
  }
  return found;
}

export interface Picture { root: Node; partial: string[]; objects: number }

/** The tree that an object is part of: what made it above, what depends on it and on its siblings below. */
export async function tree(type: ApiType, object: KubeObject, signal: AbortSignal): Promise<Picture> {
  const chain: Found[] = [{ type, metadata: object.metadata, object }];
  let missing: Reference | undefined;
  while (chain.length < 10) {
    const up = parentOf(chain[0].object);
    if (!up) break;
    const found = await follow(up, chain[0].metadata.namespace, signal);
    if (!found) { missing = up; break; }
    if (chain.some((each) => each.metadata.uid === found.metadata.uid)) break;
    chain.unshift(found);
  }
  const references = await referred(chain, signal);
  const { byOwner, partial } = await listOwned(scopeOf([...chain, ...references].map((each) => each.metadata)), signal);
  const known = new Map([...chain, ...references].map((each) => [each.metadata.uid, each.object]));
  const picture = new Drawing(byOwner, known, new Set(chain.map((each) => each.metadata.uid)), object.metadata.uid, signal);
  let root = await picture.node(chain[0], chain[0].object);
  if (missing) root = { ...absent(missing), children: [root] };
  return { root, partial, objects: picture.drawn };
}

const absent = (reference: Reference): Node => ({ label: reference.name, kind: reference.kind, missing: `${reference.apiVersion} ${reference.kind} ${reference.name}`, children: [] });

/** Builds the nodes of a tree, each object once. */
class Drawing {
  drawn = 0;
  private seen = new Set<string>();
  constructor(private readonly byOwner: Map<string, Related[]>, private readonly known: Map<string, KubeObject>, private readonly chain: Set<string>,
    private readonly self: string, private readonly signal: AbortSignal) {}

  async node(item: Related, object: KubeObject | undefined): Promise<Node> {
    this.seen.add(item.metadata.uid);
    this.drawn++;
    const node: Node = { label: item.metadata.name, kind: item.type.kind, related: item, object, self: item.metadata.uid === this.self, children: [] };
    const owned = (this.byOwner.get(item.metadata.uid) ?? []).filter((child) => !this.seen.has(child.metadata.uid));
    owned.sort((a, b) => Number(this.chain.has(b.metadata.uid)) - Number(this.chain.has(a.metadata.uid)) || order(a.type.kind, b.type.kind) || order(a.metadata.name, b.metadata.name));
    const some = this.drawn < MAX_NODES ? owned.slice(0, MAX_CHILDREN) : [];
    for (const child of some) this.seen.add(child.metadata.uid);
    await parallel(some, CONNECTIONS, async (child) => {
      const full = this.known.get(child.metadata.uid) ?? await get(pathOf(child.type, child.metadata.namespace, child.metadata.name), { signal: this.signal }).catch(() => undefined);
      if (full) this.known.set(child.metadata.uid, full);
    });
    for (const child of some) node.children.push(await this.node(child, this.known.get(child.metadata.uid)));
    if (object) await this.referred(item, object, node);
    if (owned.length > some.length) node.children.push({ label: `${owned.length - some.length} more`, kind: "", more: owned.length - some.length, children: [] });
    return node;
  }

  /** Adds what the spec refers to and the object does not own. */
  private async referred(item: Related, object: KubeObject, node: Node) {
    for (const reference of specReferences(item.type, object).slice(0, MAX_CHILDREN)) {
      if (node.children.some((child) => child.kind === reference.kind && child.label === reference.name)) continue;
      const found = this.drawn < MAX_NODES && await follow(reference, item.metadata.namespace, this.signal);
      if (found && this.seen.has(found.metadata.uid)) continue;
      node.children.push({ ...(found ? await this.node(found, found.object) : absent(reference)), referred: true });
    }
  }
}

const order = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);
