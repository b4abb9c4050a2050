// One object: conditions, relations, events, YAML, managed fields.
import { useEffect, useMemo, useState } from "preact/hooks";
import { ApiError, follow, get, list, type KubeObject, type ManagedFields } from "./api";
import { YamlView } from "./editor";
import { stateOf } from "./conditions";
import { tree } from "./owners";
import { Age, Failure, Loading, Pill } from "./parts";
import { consoleOf } from "./planes";
import { DeleteDialog } from "./remove";
import { EVERY, usePolled } from "./polled";
import { go, route, setQuery } from "./router";
import { useMay } from "./scope";
import { useSignal } from "./signal";
import { Summary, isSecret, masked } from "./summary";
import { toYaml } from "./text";
import { Tree } from "./tree";
import { apiVersion, findType, hrefOfReference, hrefOfType, isPlanes, keyOf, pathOf, typeKey, type ApiType } from "./types";

/** Loads an object and follows its changes. */
function useObject(type: ApiType, namespace: string, name: string) {
  const [state, set] = useState<{ object?: KubeObject; gone?: boolean; error?: Error }>({});
  useEffect(() => {
    const abort = new AbortController();
    void follow<KubeObject>({
      path: pathOf(type, namespace || undefined), query: { fieldSelector: `metadata.name=${name.replace(/[\\,=]/g, "\\$&")}` }, accept: "application/json", exact: true, watchable: type.verbs.includes("watch"),
      load: async (signal) => {
        const object = await get(pathOf(type, namespace || undefined, name), { signal, exact: true });
        set({ object });
        return object.metadata.resourceVersion;
      },
      onEvent: ({ type, object }) => {
        if (type !== "BOOKMARK") set({ object, gone: type === "DELETED" });
        return object.metadata.resourceVersion;
      },
      onError: (error) => set(({ object }) => (error instanceof ApiError && error.code === 404 ? { object, gone: true, error: object ? undefined : error } : { object, error })),
    }, abort.signal);
    return () => abort.abort();
  }, []);
  return state;
}

export function ObjectPage() {
  const { parts } = useSignal(route);
  const type = findType(keyOf(parts[1], parts[2], parts[3]));
  if (!type) return <><h1>{parts[5]}</h1><p>The server does not serve this type. <a href="#/types">Types</a></p></>;
  return <OneObject type={type} namespace={parts[4] === "-" ? "" : parts[4]} name={parts[5]} />;
}

const tabs = [["", "Summary"], ["yaml", "YAML"], ["tree", "Relations"], ["events", "Events"], ["managers", "Managers"]] as const;

function OneObject({ type, namespace, name }: { type: ApiType; namespace: string; name: string }) {
  const { query } = useSignal(route);
  const tab = query.get("tab") ?? "";
  const { object, gone, error } = useObject(type, namespace, name);
  const [deleting, setDeleting] = useState(false);
  const mayEdit = useMay("patch", type, namespace, name), mayDelete = useMay("delete", type, namespace, name);
  if (!object) return error ? <><p class="crumbs"><a href={hrefOfType(type)}>{type.kind}</a> {apiVersion(type)}{namespace && ` in ${namespace}`}</p><div class="title"><h1>{name}</h1></div><Failure error={error} doing={`read ${type.kind} ${name}`} /></> : <Loading />;
  const state = stateOf(object);
  return (
    <>
      <p class="crumbs"><a href={hrefOfType(type)}>{type.kind}</a> {apiVersion(type)}{namespace && <> in <a href={`${hrefOfType(type)}?ns=${encodeURIComponent(namespace)}`}>{namespace}</a></>}</p>
      <div class="title"><h1>{name}</h1>
        {gone ? <Pill state="bad">deleted</Pill> : object.metadata.deletionTimestamp ? <Pill state="warn">is being deleted</Pill> : state.tone !== "idle" && <Pill state={state.tone}>{state.tone === "good" ? state.word : "not ready"}</Pill>}
        <span class="buttons">{!gone && isPlanes(type) && <a class="button" href={consoleOf(name)}>Open its console</a>}{!gone && mayEdit && <a class="button" href={`#/edit/${typeKey(type)}/${namespace ? encodeURIComponent(namespace) : "-"}/${encodeURIComponent(name)}`}>Edit</a>}
        {!gone && mayDelete && <button class="danger" onClick={() => setDeleting(true)}>Delete</button>}</span></div>
      <div class="tabs" role="tablist" onKeyDown={moveTab}>
        {tabs.map(([id, title]) => <button key={id} role="tab" aria-selected={tab === id} tabIndex={tab === id ? 0 : -1} onClick={() => setQuery({ tab: id })}>{title}</button>)}
      </div>
      {error && <Failure error={error} doing="follow the object" />}
      <div role="tabpanel">
        {tab === "" && <Summary type={type} object={object} />}
        {tab === "yaml" && <Yaml object={object} />}
        {tab === "tree" && <Relations type={type} object={object} />}
        {tab === "events" && <Events object={object} />}
        {tab === "managers" && <Managers object={object} />}
      </div>
      {deleting && <DeleteDialog type={type} objects={[object.metadata]} onClose={(done) => { setDeleting(false); if (done) go(hrefOfType(type) + (namespace ? `?ns=${encodeURIComponent(namespace)}` : "")); }} />}
    </>
  );
}

/** Goes to another tab by the arrow keys. */
function moveTab(event: KeyboardEvent) {
  const all = [...(event.currentTarget as Element).querySelectorAll<HTMLElement>("[role=tab]")], from = all.indexOf(event.target as HTMLElement);
  const to = ({ ArrowRight: (from + 1) % all.length, ArrowLeft: (from + all.length - 1) % all.length, Home: 0, End: all.length - 1 } as Record<string, number>)[event.key];
  if (from < 0 || to === undefined) return;
  event.preventDefault();
  all[to].focus();
  all[to].click();
}

function Yaml({ object }: { object: KubeObject }) {
  const secret = isSecret(object);
  const [revealed, setRevealed] = useState(false);
  const [managed, setManaged] = useState(false);
  const text = useMemo(() => {
    const shown = secret && !revealed ? masked(object) : object;
    const { managedFields, ...metadata } = shown.metadata;
    return toYaml(managed ? shown : { ...shown, metadata });
  }, [object, revealed, managed]);
  return <>
    <div class="toolbar">
      <label><input type="checkbox" checked={managed} onChange={(event) => setManaged(event.currentTarget.checked)} /> managed fields</label>
      {secret && <label><input type="checkbox" checked={revealed} onChange={(event) => setRevealed(event.currentTarget.checked)} /> show secret values</label>}
    </div>
    <YamlView text={text} label={`YAML of ${object.metadata.name}`} />
  </>;
}

function Relations({ type, object }: { type: ApiType; object: KubeObject }) {
  const { data, error } = usePolled((signal) => tree(type, object, signal), [object.metadata.uid], (took) => Math.max(EVERY, 10 * took));
  if (error && !data) return <Failure error={error} doing="find relations" />;
  if (!data) return <p class="loading" aria-busy="true">Looking through all types…</p>;
  const { root, partial } = data;
  return <>
    <p class="legend muted">Owners are on the left, dependents on the right. <span><svg width="34" height="8"><path class="edge" d="M0,4H34" /></svg> is owned: deleting the left deletes the right.</span> <span><svg width="34" height="8"><path class="edge referred" d="M0,4H34" /></svg> is named in the spec: a controller decides.</span>
      {partial.length > 0 && ` Only a part of all ${partial.join(", ")} was read.`}</p>
    <Tree root={root} />
  </>;
}

function Events({ object }: { object: KubeObject }) {
  const { data, error } = usePolled((signal) => list("/api/v1/events", { query: { fieldSelector: `involvedObject.uid=${object.metadata.uid}`, limit: 500 }, signal }), [object.metadata.uid]);
  if (error && !data) return <Failure error={error} doing="list events" />;
  if (!data) return <Loading />;
  const events = latestFirst(data.items);
  return events.length === 0 ? <p class="muted">No events. The server keeps events for one hour unless it is configured otherwise.</p> : <EventList events={events} />;
}

const timeOf = (event: KubeObject): string => event.series?.lastObservedTime ?? event.lastTimestamp ?? event.eventTime ?? event.metadata.creationTimestamp;

export const latestFirst = (events: KubeObject[]) => [...events].sort((a, b) => timeOf(b).localeCompare(timeOf(a)));

export function EventList({ events, withObject }: { events: KubeObject[]; withObject?: boolean }) {
  return <ul class="events">{events.map((event) => {
    const target = event.involvedObject ?? {};
    const href = target.kind && hrefOfReference({ apiVersion: target.apiVersion ?? "v1", kind: target.kind, name: target.name, uid: target.uid }, target.namespace);
    return <li key={event.metadata.uid}>
      <Pill state={event.type === "Warning" ? "warn" : "idle"}>{event.reason}</Pill>
      <span>{withObject && target.name && <>{href ? <a href={href}>{target.kind} {target.name}</a> : `${target.kind} ${target.name}`}: </>}{event.message}</span>
      <span class="muted">{event.count > 1 ? `${event.count}× ` : ""}<Age time={timeOf(event)} /></span>
    </li>;
  })}</ul>;
}

function Managers({ object }: { object: KubeObject }) {
  const [open, setOpen] = useState<number>();
  const managers = object.metadata.managedFields ?? [];
  if (managers.length === 0) return <p class="muted">No manager is recorded.</p>;
  return <ul class="managers">{managers.map((entry, i) => <li key={i}>
    <button class="link" aria-expanded={open === i} onClick={() => setOpen(open === i ? undefined : i)}>{entry.manager}</button>
    <span class="muted"> {entry.operation}{entry.subresource ? ` of ${entry.subresource}` : ""}, {entry.apiVersion}, <Age time={entry.time} ago /></span>
    {open === i && <ul class="mono fields">{fieldsOf(entry).map((field) => <li key={field}>{field}</li>)}</ul>}
  </li>)}</ul>;
}

/** The fields of a manager as paths. */
export function fieldsOf(entry: ManagedFields): string[] {
  const found: string[] = [];
  const visit = (fields: Record<string, any>, path: string) => {
    const names = Object.keys(fields).filter((name) => name !== ".");
    if (names.length === 0 && path) found.push(path);
    for (const name of names) {
      const part = name.startsWith("f:") ? `.${name.slice(2)}` : name.startsWith("k:") || name.startsWith("v:") ? `[${name.slice(2)}]` : `[${name}]`;
      visit(fields[name] ?? {}, path + part);
    }
  };
  visit(entry.fieldsV1 ?? {}, "");
  return found.map((path) => path.replace(/^\./, ""));
}
