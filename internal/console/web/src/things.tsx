// The user's objects at a glance: how many there are, what is not ready, what has changed lately.
import { useEffect } from "preact/hooks";
import { ApiError, METADATA_LIST, connection, list, parallel, pause, whileInView, type KubeObject, type Metadata } from "./api";
import { stateOf, type State } from "./conditions";
import { listable, rules } from "./counts";
import { number } from "./format";
import { Age, Loading, Pill } from "./parts";
import { scope } from "./scope";
import { Signal, useSignal } from "./signal";
import { apiVersion, hrefOfObject, hrefOfType, isBuiltIn, isPlanes, pathOf, typeKey, types, type ApiType } from "./types";

/** Objects of a type that are read, types that are asked for at a time, rows of a part. */
const READ = 100, CONNECTIONS = 3, ROWS = 10;

interface Thing { metadata: Metadata; state: State; changed: string; how: string }
interface OfType { type: ApiType; count: number; things: Thing[] }
interface Things { of: string; byType: ReadonlyMap<string, OfType>; complete: boolean; failures: string[] }

/** What is known; it outlives a visit of another page. */
const known = new Signal<Things>({ of: "", byType: new Map(), complete: false, failures: [] });

/** Types that people and their controllers work with; the server keeps the others. */
const isTheirs = (type: ApiType) => !isBuiltIn(type) || isPlanes(type) || type.group === "apps" || type.group === "batch"
  || type.group === "" && !["events", "serviceaccounts", "endpoints", "nodes"].includes(type.resource);
/** Objects that the server makes by itself. */
const isMade = (type: ApiType, { name, namespace = "" }: Metadata) => name === "kube-root-ca.crt" || namespace.startsWith("kube-")
  || type.group === "" && type.resource === "namespaces" && /^(kube-|default$)/.test(name);

/** What happened to an object last, by the record of its managers. */
function lastChange({ metadata }: KubeObject): { changed: string; how: string } {
  const { creationTimestamp: created, deletionTimestamp, managedFields } = metadata;
  if (deletionTimestamp) return { changed: deletionTimestamp, how: "is being deleted" };
  const last = (managedFields ?? []).filter((entry) => entry.time).sort((a, b) => b.time!.localeCompare(a.time!))[0];
  if (!last) return { changed: created, how: "created" };
  return { changed: last.time!, how: `${last.subresource ?? (last.time === created ? "created" : "changed")} by ${last.manager}` };
}

/** Reads the first objects of a type; those without a status by their metadata. */
async function read(type: ApiType, namespace: string, signal: AbortSignal): Promise<OfType> {
  const page = await list(pathOf(type, namespace || undefined), { accept: type.subresources.includes("status") ? undefined : METADATA_LIST, query: { limit: READ }, signal });
  const things = page.items.filter((item) => !isMade(type, item.metadata)).map((item): Thing => {
    const { name, namespace: of, uid, creationTimestamp, resourceVersion } = item.metadata;
    return { metadata: { name, namespace: of, uid, creationTimestamp, resourceVersion }, state: stateOf(item), ...lastChange(item) };
  });
  return { type, count: things.length + (page.metadata.remainingItemCount ?? 0), things };
}

/** When the types were read. */
const readAt = new Map<string, number>();

/** The types whose objects are shown. */
const wantedOf = (served: ApiType[], namespace: string) => served.filter((type) => isTheirs(type) && listable(type) && (type.namespaced || !namespace));

/** Follows the objects of all types while the component is shown. */
function useThings(): Things {
  const served = useSignal(types), of = useSignal(scope) ?? "", allowed = useSignal(rules);
  useEffect(() => {
    if (!served) return;
    const abort = new AbortController();
    void whileInView(abort.signal, async (shown) => {
      while (!shown.aborted) {
        const begun = performance.now(), found = new Map(known.value.of === of ? known.value.byType : []);
        let told = 0;
        const failures: string[] = [], tell = (complete: boolean) => { told = Date.now(); known.value = { of, byType: new Map(found), complete, failures }; };
        const last = (type: ApiType) => readAt.get(typeKey(type)) ?? 0;
        const wanted = wantedOf(served, of).sort((a, b) => last(a) - last(b)); // a visit goes on where the one before ended
        for (const key of [...found.keys()]) if (!wanted.some((type) => typeKey(type) === key)) found.delete(key);
        await parallel(wanted, CONNECTIONS, async (type) => {
          if (shown.aborted) return;
          try {
            const result = await read(type, of, shown);
            readAt.set(typeKey(type), Date.now());
            if (result.count > 0) found.set(typeKey(type), result); else found.delete(typeKey(type));
          } catch (error) { // what the user may not list is not counted either; of a server that is away, the page tells
            if (error instanceof ApiError && ![0, 403, 404, 405, 502].includes(error.code)) failures.push(`${type.kind}: ${error.message}`);
          }
          if (!shown.aborted && Date.now() - told > 300) tell(known.value.of === of && known.value.complete);
        });
        if (shown.aborted) return;
        tell(connection.value === "up");
        await pause(Math.max(10_000, 20 * (performance.now() - begun)), shown);
      }
    });
    return () => abort.abort();
  }, [served, of, allowed]);
  return useSignal(known);
}

export function ThingsOf() {
  const { byType, complete, failures } = useThings();
  const namespace = useSignal(scope), served = useSignal(types) ?? [], installed = served.filter((type) => !isBuiltIn(type)).length;
  const found = [...byType.values()].sort((a, b) => Number(isBuiltIn(a.type)) - Number(isBuiltIn(b.type)) || a.type.kind.localeCompare(b.type.kind));
  const all = found.flatMap(({ type, things }) => things.map((thing) => ({ type, ...thing })));
  const latest = [...all].sort((a, b) => b.changed.localeCompare(a.changed));
  const rank = (tone: string) => Number(tone === "bad");
  const unready = latest.filter(({ state }) => state.tone === "bad" || state.tone === "warn").sort((a, b) => rank(b.state.tone) - rank(a.state.tone));
  const part = found.filter(({ count, things }) => count > things.length).map(({ type }) => type.kind);
  const where = namespace ? ` in ${namespace}` : "";
  const unread = failures.length > 0 && <details class="note"><summary>{number(failures.length)} {failures.length === 1 ? "type" : "types"} could not be read</summary><ul class="plain-list">{failures.map((failure) => <li key={failure}>{failure}</li>)}</ul></details>;
  if (found.length === 0) return <section><h2>Objects{where}</h2>{!complete ? <Loading /> : wantedOf(served, namespace ?? "").length === 0
    ? <p class="muted">You may not list any type{where}. Choose another namespace at the top of the page, or ask an administrator for a role.</p> : installed === 0
    ? <p class="muted">No types are installed. Those of <code>kubectl apply -f crds.yaml</code> appear here, and so do their objects.</p>
    : <p class="muted">There are none yet. Choose one of {number(installed)} installed <a href="#/types">types</a> to create an object, or use <code>kubectl apply</code>.</p>}{unread}</section>;
  return <>
    <section><h2>Objects{where}</h2><TypeCounts found={found} />
      {part.length > 0 && <p class="muted note">Of more than {READ} objects of a type ({part.slice(0, 5).join(", ")}{part.length > 5 ? " …" : ""}), the first {READ} are looked at below.</p>}{unread}</section>
    <div class="cards halves">
      <section><h2>Not ready {unready.length > 0 && <span class="figure">{number(unready.length)}</span>}</h2>{unready.length > 0 ? <Rows rows={unready} render={(row) => <><Pill state={row.state.tone}>{row.state.word}</Pill><Link {...row}>{row.state.message && <small class="line">{row.state.message}</small>}</Link></>} />
        : <p class="muted">{complete ? all.some(({ state }) => state.tone === "good") ? "All objects with conditions are ready." : "No object has conditions." : "Looking…"}</p>}</section>
      <section><h2>Changed lately</h2><Rows rows={latest} rest={false} render={(row) => <><Link {...row} /><small>{row.how}</small></>} /></section>
    </div>
  </>;
}

/** The types with the number of their objects, as links. */
export function TypeCounts({ found, query = "" }: { found: { type: ApiType; count?: number }[]; query?: string }) {
  return <ul class="content">{found.map(({ type, count }) => <li key={typeKey(type)}><a href={hrefOfType(type) + query} title={apiVersion(type)}>{type.kind}</a> <span class="figure">{count === undefined ? "?" : number(count)}</span></li>)}</ul>;
}

type Row = Thing & { type: ApiType };

function Rows({ rows, rest = true, render }: { rows: Row[]; rest?: boolean; render: (row: Row) => any }) {
  return <ul class="events">{rows.slice(0, ROWS).map((row) => <li key={row.metadata.uid}>{render(row)}<span class="muted"><Age time={row.changed} /></span></li>)}
    {rest && rows.length > ROWS && <li class="muted">and {number(rows.length - ROWS)} more</li>}</ul>;
}

function Link({ type, metadata, children }: Row & { children?: any }) {
  return <span>{type.kind} <a href={hrefOfObject(type, metadata)}>{metadata.name}</a>{metadata.namespace && scope.value !== metadata.namespace && <small> in {metadata.namespace}</small>}{children}</span>;
}
