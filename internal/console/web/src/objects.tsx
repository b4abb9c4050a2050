// The page of a type's objects: filters, sorting, selection.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ApiError } from "./api";
import { toneOf } from "./conditions";
import { bytes, number } from "./format";
import { CreatePlane, FailedPlanes, adapter, consoleOf } from "./planes";
import { DeleteDialog } from "./remove";
import { Age, Failure, Loading, moveFocus, useDebounced, VirtualList } from "./parts";
import { route, setQuery } from "./router";
import { scope, useMay } from "./scope";
import { useSignal } from "./signal";
import { PAGE, LiveTable, arrange, cellText, isAge, type Row } from "./table";
import { apiVersion, findType, hrefOfObject, isPlanes, keyOf, pathOf, typeKey, type ApiType } from "./types";

export function Objects() {
  const { parts, query } = useSignal(route);
  const type = findType(keyOf(parts[1], parts[2], parts[3]));
  if (!type) return <><h1>{parts[3]}</h1><p>The server does not serve this type. <a href="#/types">Types</a></p></>;
  return <ObjectsOf key={typeKey(type)} type={type} query={query} />;
}

function ObjectsOf({ type, query }: { type: ApiType; query: URLSearchParams }) {
  const beginning = useSignal(scope) ?? "";
  const namespace = type.namespaced ? query.get("ns") ?? beginning : "", labels = query.get("labels") ?? "";
  const table = useMemo(() => new LiveTable(pathOf(type, namespace || undefined), labels, type.verbs.includes("watch"), isPlanes(type) ? adapter() : undefined), [namespace, labels]);
  useEffect(() => () => table.close(), [table]);
  const version = useSignal(table.version);
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [deleting, setDeleting] = useState(false), [creating, setCreating] = useState(false);
  const filter = (query.get("q") ?? "").toLowerCase(), sort = query.get("sort") ?? "", descending = query.get("order") === "desc";
  const rows = useMemo(() => {
    const begun = performance.now();
    const arranged = arrange(table, filter, sort, descending);
    table.cost = performance.now() - begun;
    return arranged;
  }, [table, version, filter, sort, descending]);
  const columns = table.columns.map((column, index) => ({ ...column, index })).filter((column) => column.priority === 0 || query.has("wide"));
  const wider = table.columns.some((column) => column.priority > 0);
  const showNamespace = type.namespaced && !namespace;
  const titles = [...(showNamespace ? ["Namespace"] : []), ...columns.map((column) => column.name)];
  const grid = useGrid(table, rows, titles, showNamespace, columns, isPlanes(type) ? 8 : 0);
  const numeric = (title: string) => columns.some((column) => column.name === title && (column.type === "integer" || column.type === "number"));
  const chosen = selected.size > 0 ? rows.filter((row) => selected.has(row.object.metadata.uid)) : [];
  const toggle = (uid: string) => setSelected((before) => { const next = new Set(before); if (!next.delete(uid)) next.add(uid); return next; });
  const empty = table.rows.size === 0;
  return (
    <>
      <div class="title"><h1>{isPlanes(type) ? "Control planes" : type.kind}</h1><span class="muted">{apiVersion(type)}</span>
        <span class="muted" aria-live="polite">{empty && (table.loading || table.error) ? "" : `${table.exact ? "" : "more than "}${number(table.total)} ${table.total === 1 ? "object" : "objects"}`}</span>
        <span class="buttons"><a class="button" href={`#/schema/${typeKey(type)}`}>Schema</a>
        {useMay("create", type, namespace) && (isPlanes(type) ? <button class="primary" onClick={() => setCreating(true)}>Create</button> : <a class="button primary" href={`#/new/${typeKey(type)}${namespace ? "?ns=" + encodeURIComponent(namespace) : ""}`}>Create</a>)}</span></div>
      <Filters labels={labels} query={query}>
        {wider && <label><input type="checkbox" checked={query.has("wide")} onChange={(event) => setQuery({ wide: event.currentTarget.checked ? "yes" : undefined })} /> all columns</label>}
        {chosen.length > 0 && <button class="danger" aria-keyshortcuts="Delete" title="or the key Delete in the table" onClick={() => setDeleting(true)}>Delete {number(chosen.length)}</button>}
      </Filters>
      {isPlanes(type) && <FailedPlanes type={type} table={table} rows={rows} />}
      <More table={table} matching={rows.length} filtered={!!filter} />
      {table.error && <Failure error={table.error} doing={`list ${type.resource}${namespace ? " in " + namespace : ""}`} />}
      {table.error instanceof ApiError && table.error.code === 403 && type.namespaced && <p class="notice">At the top of the page, choose {namespace ? "another namespace" : "a namespace in which you may list them"}.</p>}
      {table.loading && empty && !table.error && <Loading />}
      {columns.length > 0 && !empty && <div class={`table scroller ${rows.length < 8 ? "short" : ""}`} role="table" aria-label={type.kind} aria-rowcount={rows.length + 1}
        onKeyDown={(event) => { if (event.key === "Delete" && chosen.length > 0) setDeleting(true); else moveFocus(event); }}>
        <div class="object-row head" role="row" style={grid}>
          <input type="checkbox" aria-label="Select all" checked={rows.length > 0 && chosen.length === rows.length}
            onChange={(event) => setSelected(event.currentTarget.checked ? new Set(rows.map((row) => row.object.metadata.uid)) : new Set())} />
          {titles.map((title) => <span key={title} role="columnheader" class={numeric(title) ? "number" : undefined} aria-sort={sort !== title ? "none" : descending ? "descending" : "ascending"}><button class="sort" title={columns.find((column) => column.name === title)?.description}
            onClick={() => setQuery({ sort: title, order: sort === title && !descending ? "desc" : undefined })}>
            {title}{sort === title ? (descending ? " ↓" : " ↑") : ""}</button></span>)}
        </div>
        <VirtualList label={type.kind} items={rows} keyOf={(row) => row.object.metadata.uid} onEnd={filter || !table.next ? undefined : () => void table.more()} row={(row) => {
          const { metadata } = row.object;
          return <div class={`object-row ${metadata.deletionTimestamp ? "going" : ""}`} role="row" style={grid} title={metadata.deletionTimestamp ? "is being deleted" : undefined}>
            <input type="checkbox" aria-label={`Select ${metadata.name}`} checked={selected.has(metadata.uid)} onChange={() => toggle(metadata.uid)} />
            {showNamespace && <span class="muted">{metadata.namespace}</span>}
            {columns.map((column) => <Cell key={column.index} type={type} row={row} column={column} />)}
          </div>;
        }} />
      </div>}
      {!table.loading && !table.error && rows.length === 0 && <p class="muted">{empty ? (labels ? "No object has these labels." : "No objects.") : "No row matches."}</p>}
      {creating && <CreatePlane type={type} onClose={() => setCreating(false)} />}
      {deleting && <DeleteDialog type={type} objects={chosen.map((row) => row.object.metadata)} onClose={(done) => { setDeleting(false); if (done) setSelected(new Set()); }} />}
    </>
  );
}

/** The columns' widths: as wide as their texts, with a limit. They grow only, so that a change does not move them. */
function useGrid(table: LiveTable, rows: Row[], titles: string[], withNamespace: boolean, columns: { name: string; type: string; format: string; index: number }[], afterName: number) {
  const widest = useRef<{ table: LiveTable; widths: Map<string, number> }>({ table, widths: new Map() });
  if (widest.current.table !== table) widest.current = { table, widths: new Map() };
  return useMemo(() => {
    const { widths } = widest.current;
    titles.forEach((title, i) => {
      const column = columns[withNamespace ? i - 1 : i];
      let longest = title.length + 2;
      for (const row of rows.slice(0, 200)) longest = Math.max(longest, column ? isAge(column) || title === "Age" ? 5 : column.type === "date" || column.format === "bytes" ? 9 : cellText(row.cells[column.index]).length : row.object.metadata.namespace?.length ?? 0);
      if (title === "Name") longest += afterName;
      widths.set(title, Math.max(widths.get(title) ?? 0, Math.min(title !== "Name" ? 320 : titles.length < 5 ? 760 : 460, Math.ceil(longest * 7.4) + 6)));
    });
    const least = (title: string) => Math.min(widths.get(title)!, title === "Name" ? 120 : 76);
    return { gridTemplateColumns: `24px ${titles.map((title) => `minmax(${least(title)}px, ${widths.get(title)}px)`).join(" ")}`, minWidth: `${titles.reduce((sum, title) => sum + least(title) + 12, 52)}px` };
  }, [rows, titles.join("|")]);
}

function Cell({ type, row, column }: { type: ApiType; row: Row; column: { name: string; type: string; format: string; index: number } }) {
  const { metadata } = row.object;
  if (isPlanes(type) && column.name === "Name") return <span class="plane"><a href={hrefOfObject(type, metadata)} title={metadata.name}>{metadata.name}</a><a href={consoleOf(metadata.name)} aria-label={`Open the console of ${metadata.name}`}>open</a></span>;
  if (isPlanes(type) && column.name === "Phase") return <span class={({ Awake: "good", Failed: "bad" } as Record<string, string>)[String(row.cells[column.index])] ?? "muted"}>{cellText(row.cells[column.index])}</span>;
  if (column.format === "name" || column.name === "Name") return <a href={hrefOfObject(type, metadata)} title={metadata.name}>{metadata.name}</a>;
  const text = cellText(row.cells[column.index]);
  if (column.format === "bytes") return <span class="number">{row.cells[column.index] ? bytes(Number(text)) : ""}</span>;
  // The server sends an age as text, which would not grow.
  if (isAge(column)) return <Age time={metadata.creationTimestamp} />;
  if (column.type === "date" && /^\d{4}-/.test(text)) return <Age time={text} ago />;
  const state = column.type === "string" && ["True", "False", "Unknown"].includes(text) && toneOf({ type: column.name, status: text });
  return <span title={text} class={column.type === "integer" || column.type === "number" ? "number" : state || undefined}>{text}</span>;
}

/** What is loaded, of a type with many objects. */
function More({ table, matching, filtered }: { table: LiveTable; matching: number; filtered: boolean }) {
  if (!table.next && !table.greedy) return filtered && table.total > PAGE ? <p class="more muted">{number(matching)} of {number(table.total)} rows match.</p> : null;
  return <div class="more">
    {table.greedy ? <button onClick={() => { table.greedy = false; }}>Stop</button> : <button disabled={table.loading} onClick={() => void table.all()}>{table.exact ? `Load all ${number(table.total)}` : "Load all"}</button>}
    <span class="muted" aria-live="polite">{number(table.rows.size)}{table.exact ? ` of ${number(table.total)}` : ""} are loaded. Text filter and sorting apply to these{filtered ? `: ${number(matching)} match` : ""}; namespace and labels to all.</span>
  </div>;
}

function Filters({ labels, query, children }: { labels: string; query: URLSearchParams; children?: any }) {
  const [labelText, setLabelText] = useDebounced(labels, (value) => setQuery({ labels: value }));
  const [filterText, setFilterText] = useDebounced(query.get("q") ?? "", (value) => setQuery({ q: value }));
  return <div class="toolbar">
    <input type="search" placeholder="labels: app=web" aria-label="Label selector" value={labelText} onInput={(event) => setLabelText(event.currentTarget.value)} />
    <input type="search" placeholder="text in a row" aria-label="Filter rows" value={filterText} onInput={(event) => setFilterText(event.currentTarget.value)} />
    {children}
  </div>;
}
