// The objects of a type, as the server's own table, live.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ApiError, TABLE, get, list, pause, watch, type Metadata } from "./api";
import { age, number } from "./format";
import { DeleteDialog } from "./remove";
import { Failure, Loading, moveFocus, useDebounced, VirtualList } from "./parts";
import { route, setQuery } from "./router";
import { useSignal } from "./signal";
import { apiVersion, findType, hrefOfObject, keyOf, pathOf, typeKey, type ApiType } from "./types";

interface Column { name: string; type: string; format: string; priority: number; description: string }
interface Row { cells: unknown[]; object: { metadata: Metadata } }
interface Table { columnDefinitions: Column[] | null; rows: Row[] | null; metadata: { resourceVersion: string; continue?: string; remainingItemCount?: number } }

const PAGE = 500;

interface Live { columns: Column[]; rows: Map<string, Row>; next?: string; remaining: number; loading: boolean; error?: Error }
const empty: Live = { columns: [], rows: new Map(), remaining: 0, loading: true };

/** Lists the first page and follows changes; lists again when the watch ends. */
function useTable(type: ApiType, namespace: string, labels: string): Live & { more: () => void } {
  const [live, setLive] = useState<Live>(empty);
  const path = pathOf(type, namespace || undefined);
  const signal = useRef<AbortSignal | undefined>(undefined);
  useEffect(() => {
    const abort = new AbortController();
    signal.current = abort.signal;
    setLive(empty);
    void follow(path, labels, type.verbs.includes("watch"), abort.signal, setLive);
    return () => abort.abort();
  }, [path, labels]);
  const more = () => {
    const token = live.next;
    if (!token || live.loading) return;
    setLive((before) => ({ ...before, loading: true }));
    get<Table>(path, { accept: TABLE, query: { limit: PAGE, continue: token, labelSelector: labels }, signal: signal.current }).then(
      (page) => setLive((before) => {
        const rows = new Map(before.rows);
        // What the watch has told is newer than this page.
        for (const row of page.rows ?? []) if (!rows.has(row.object.metadata.uid)) rows.set(row.object.metadata.uid, row);
        return { ...before, rows, next: page.metadata.continue, remaining: page.metadata.remainingItemCount ?? 0, loading: false };
      }),
      (error) => setLive((before) => ({ ...before, error, next: undefined, loading: false })),
    );
  };
  return { ...live, more };
}

async function follow(path: string, labels: string, watchable: boolean, signal: AbortSignal, set: (change: (before: Live) => Live) => void) {
  while (!signal.aborted) {
    try {
      const page = await get<Table>(path, { accept: TABLE, query: { limit: PAGE, labelSelector: labels }, signal });
      set(() => ({
        columns: page.columnDefinitions ?? [], rows: new Map((page.rows ?? []).map((row) => [row.object.metadata.uid, row])),
        next: page.metadata.continue, remaining: page.metadata.remainingItemCount ?? 0, loading: false,
      }));
      if (!watchable) return;
      // Several events are drawn at once.
      let events: { type: string; row: Row }[] = [];
      let version = page.metadata.resourceVersion;
      const draw = () => {
        const some = events;
        events = [];
        set((before) => {
          const rows = new Map(before.rows);
          for (const { type, row } of some) if (type === "DELETED") rows.delete(row.object.metadata.uid); else rows.set(row.object.metadata.uid, row);
          return { ...before, rows };
        });
      };
      while (!signal.aborted) {
        await watch<Table>(path, { labelSelector: labels, resourceVersion: version }, TABLE, signal, (event) => {
          const row = event.object.rows?.[0];
          if (row?.object?.metadata?.resourceVersion) version = row.object.metadata.resourceVersion;
          if (!row || event.type === "BOOKMARK") return;
          if (events.length === 0) requestAnimationFrame(draw);
          events.push({ type: event.type, row });
        });
        await pause(200, signal);
      }
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof ApiError) || (error.code !== 410 && error.code !== 0)) set((before) => ({ ...before, error: error as Error, loading: false }));
      await pause(2000, signal);
    }
  }
}

const text = (value: unknown): string => value === null || value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);

function compare(a: unknown, b: unknown): number {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return text(a).localeCompare(text(b), undefined, { numeric: true });
}

export function Objects() {
  const { parts, query } = useSignal(route);
  const type = findType(keyOf(parts[1], parts[2], parts[3]));
  if (!type) return <><h1>{parts[3]}</h1><p>The server does not serve this type. <a href="#/types">Types</a></p></>;
  return <ObjectsOf key={typeKey(type)} type={type} query={query} />;
}

function ObjectsOf({ type, query }: { type: ApiType; query: URLSearchParams }) {
  const namespace = query.get("ns") ?? "", labels = query.get("labels") ?? "", filter = (query.get("q") ?? "").toLowerCase();
  const live = useTable(type, namespace, labels);
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [deleting, setDeleting] = useState(false);
  const [labelText, setLabelText] = useDebounced(labels, (value) => setQuery({ labels: value }));
  const [filterText, setFilterText] = useDebounced(query.get("q") ?? "", (value) => setQuery({ q: value }));
  const columns = live.columns.map((column, index) => ({ ...column, index })).filter((column) => column.priority === 0);
  const sort = query.get("sort") ?? "", descending = query.get("order") === "desc";
  const rows = useMemo(() => {
    let rows = [...live.rows.values()];
    if (filter) rows = rows.filter((row) => row.cells.some((cell) => text(cell).toLowerCase().includes(filter)) || row.object.metadata.namespace?.includes(filter));
    const column = columns.find((c) => c.name === sort);
    if (sort === "Namespace") rows.sort((a, b) => compare(a.object.metadata.namespace, b.object.metadata.namespace));
    else if (sort === "Age") rows.sort((a, b) => -compare(a.object.metadata.creationTimestamp, b.object.metadata.creationTimestamp));
    else if (column) rows.sort((a, b) => compare(a.cells[column.index], b.cells[column.index]));
    if (descending) rows.reverse();
    return rows;
  }, [live.rows, live.columns, filter, sort, descending]);
  const showNamespace = type.namespaced && !namespace;
  const titles = [...(showNamespace ? ["Namespace"] : []), ...columns.map((column) => column.name)];
  const grid = { gridTemplateColumns: `28px ${titles.map((title) => (title === "Name" ? "minmax(140px, 2fr)" : "minmax(70px, 1fr)")).join(" ")}` };
  const chosen = rows.filter((row) => selected.has(row.object.metadata.uid));
  const toggle = (uid: string) => setSelected((before) => { const next = new Set(before); if (!next.delete(uid)) next.add(uid); return next; });
  const total = live.rows.size + live.remaining;
  return (
    <>
      <div class="title"><h1>{type.kind}</h1><span class="muted">{apiVersion(type)}</span>
        <span class="muted" aria-live="polite">{live.loading && live.rows.size === 0 ? "" : `${number(total)} ${total === 1 ? "object" : "objects"}`}</span>
        <span class="grow" />
        <a class="button" href={`#/schema/${typeKey(type)}`}>Schema</a>
        {type.verbs.includes("create") && <a class="button primary" href={`#/new/${typeKey(type)}${namespace ? "?ns=" + encodeURIComponent(namespace) : ""}`}>Create</a>}</div>
      <div class="toolbar">
        {type.namespaced && <NamespacePicker value={namespace} />}
        <input type="search" placeholder="labels: app=web,tier" aria-label="Label selector" value={labelText} onInput={(event) => setLabelText(event.currentTarget.value)} />
        <input type="search" placeholder="text in a row" aria-label="Filter rows" value={filterText} onInput={(event) => setFilterText(event.currentTarget.value)} />
        {chosen.length > 0 && <button class="danger" onClick={() => setDeleting(true)}>Delete {number(chosen.length)}</button>}
      </div>
      {live.error && <Failure error={live.error} doing={`list ${type.resource}`} />}
      {live.loading && live.rows.size === 0 && !live.error && <Loading />}
      {columns.length > 0 && <div class="table scroll-x" role="table" aria-label={type.kind} onKeyDown={moveFocus}>
        <div class="object-row head" role="row" style={grid}>
          <input type="checkbox" aria-label="Select all" checked={rows.length > 0 && chosen.length === rows.length}
            onChange={(event) => setSelected(event.currentTarget.checked ? new Set(rows.map((row) => row.object.metadata.uid)) : new Set())} />
          {titles.map((title) => <button key={title} class="sort" title={columns.find((column) => column.name === title)?.description}
            onClick={() => setQuery({ sort: title, order: sort === title && !descending ? "desc" : undefined })}>
            {title}{sort === title ? (descending ? " ↓" : " ↑") : ""}</button>)}
        </div>
        <VirtualList label={type.kind} items={rows} keyOf={(row) => row.object.metadata.uid} row={(row) => {
          const { metadata } = row.object;
          return <div class={`object-row ${metadata.deletionTimestamp ? "going" : ""}`} role="row" style={grid}>
            <input type="checkbox" aria-label={`Select ${metadata.name}`} checked={selected.has(metadata.uid)} onChange={() => toggle(metadata.uid)} />
            {showNamespace && <span class="muted">{metadata.namespace}</span>}
            {columns.map((column) => {
              const cell = row.cells[column.index];
              if (column.format === "name" || column.name === "Name") return <a key={column.name} href={hrefOfObject(type, metadata)}>{metadata.name}</a>;
              const shown = column.name === "Age" && !column.format ? age(metadata.creationTimestamp) : column.type === "date" ? age(text(cell)) : text(cell);
              return <span key={column.name} title={shown}>{shown}</span>;
            })}
          </div>;
        }} />
      </div>}
      {live.next && <div class="more"><button disabled={live.loading} onClick={live.more}>Load {number(Math.min(PAGE, live.remaining || PAGE))} more</button>
        <span class="muted">{number(live.rows.size)} of {number(total)} are loaded; filters and sorting apply to these.</span></div>}
      {!live.loading && !live.error && rows.length === 0 && <p class="muted">{live.rows.size > 0 ? "No row matches." : "No objects."}</p>}
      {deleting && <DeleteDialog type={type} objects={chosen.map((row) => row.object.metadata)} onClose={(done) => { setDeleting(false); if (done) setSelected(new Set()); }} />}
    </>
  );
}

function NamespacePicker({ value }: { value: string }) {
  const [names, setNames] = useState<string[]>([]);
  useEffect(() => {
    list("/api/v1/namespaces").then((found) => setNames(found.items.map((item) => item.metadata.name)), () => setNames([]));
  }, []);
  return (
    <select aria-label="Namespace" value={value} onChange={(event) => setQuery({ ns: event.currentTarget.value })}>
      <option value="">all namespaces</option>
      {[...new Set([...names, ...(value ? [value] : [])])].map((name) => <option key={name} value={name} selected={name === value}>{name}</option>)}
    </select>
  );
}

