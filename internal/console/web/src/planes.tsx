// The control planes of the server: which there are, how they are, and the way to the console of each.
import { useEffect, useRef, useState } from "preact/hooks";
import { METADATA_LIST, list, plane, send } from "./api";
import { number } from "./format";
import { Dialog, Failure, Loading, Pill } from "./parts";
import { useMay } from "./scope";
import { useLoad, useSignal } from "./signal";
import type { LiveTable, Row, Table } from "./table";
import { hrefOfObject, isPlanes, pathOf, PLANES, types, type ApiType } from "./types";

/** The address of the console of a control plane. */
export const consoleOf = (name: string) => `/clusters/${encodeURIComponent(name)}`;

/** The type of control planes, if the server has it and the user may list them. */
export function usePlanes(): ApiType | undefined {
  const type = useSignal(types)?.find(isPlanes);
  return useMay("list", type) ? type : undefined;
}

/** Returns what makes sizes and times of the server's table numbers and dates: text would not sort, nor would ages grow. */
export function adapter(): (table: Table) => void {
  const at: Record<string, number> = {};
  return ({ columnDefinitions, rows }) => {
    columnDefinitions?.forEach((column, i) => {
      at[column.name] = i;
      if (column.name === "Size") { column.type = "integer"; column.format = "bytes"; }
      if (column.name === "Last used") column.type = "date";
    });
    for (const { cells, object: { status } } of rows ?? []) {
      cells[at["Size"]] = status?.sizeBytes ?? 0;
      cells[at["Last used"]] = status?.lastUsed ?? "never";
    }
  };
}

/** Rows of failed control planes that are shown with their reasons. */
const ROWS = 5;

/** Why control planes have failed. */
export function FailedPlanes({ type, table, rows }: { type: ApiType; table: LiveTable; rows: Row[] }) {
  const cell = (row: Row, name: string) => String(row.cells[table.columns.findIndex((column) => column.name === name)] ?? "");
  const failed = rows.filter((row) => cell(row, "Phase") === "Failed");
  if (failed.length === 0) return null;
  return <ul class="events failed" aria-label="Failed control planes">{failed.slice(0, ROWS).map((row) => <li key={row.object.metadata.uid}>
    <Pill state="bad">Failed</Pill><span><a href={hrefOfObject(type, row.object.metadata)}>{row.object.metadata.name}</a> <small>{cell(row, "Message")}</small></span></li>)}
    {failed.length > ROWS && <li class="muted">and {number(failed.length - ROWS)} more</li>}</ul>;
}

/** Makes a control plane of what most need; the editor has all fields. */
export function CreatePlane({ type, onClose }: { type: ApiType; onClose: () => void }) {
  const [error, setError] = useState<Error>();
  const busy = useRef(false);
  const create = async (event: SubmitEvent) => {
    event.preventDefault();
    if (busy.current) return;
    busy.current = true;
    const { name, ...spec } = Object.fromEntries([...new FormData(event.currentTarget as HTMLFormElement)].map(([field, value]) => [field, String(value).trim()]).filter(([, value]) => value));
    try {
      const body = { apiVersion: `${type.group}/${type.version}`, kind: type.kind, metadata: { name }, spec };
      await send(pathOf(type), { method: "POST", query: { fieldManager: "kube-hyper-mini-console", fieldValidation: "Strict" }, body: JSON.stringify(body) });
      onClose();
    } catch (failure) {
      setError(failure as Error);
      busy.current = false;
    }
  };
  const field = (name: string, label: string, hint: string, required = false) => <label class="field-of"><span>{label}</span><input name={name} placeholder={hint} required={required} autocomplete="off" spellcheck={false} /></label>;
  return <Dialog title="Create a control plane" onClose={onClose}>
    <form onSubmit={create}>
      {field("name", "Name", "acme", true)}
      {field("sleepAfter", "Sleeps after", "5m without requests")}
      {field("lifetime", "Deleted after", "7d without use")}
      {error && <Failure error={error} doing="create it" />}
      <p class="muted">Without them, it sleeps after the server's default and is not deleted. For quotas, copies, CRDs and backups, <a href={`#/new/${PLANES}`}>write its YAML</a>.</p>
      <div class="actions"><button type="button" onClick={onClose}>Cancel</button><button class="primary">Create</button></div>
    </form>
  </Dialog>;
}

/** Control planes that the picker reads, and shows at a time. */
const READ = 5000, SHOWN = 12;

/** Leads to the console of a control plane, and back to that of the server. It asks for their names when it is opened, which wakes none. */
export function PlanePicker() {
  const type = usePlanes(), element = useRef<HTMLDetailsElement>(null);
  const [open, setOpen] = useState(false);
  if (!type && !plane) return null;
  const close = (focus: boolean) => { element.current!.open = false; if (focus) element.current!.querySelector("summary")!.focus(); };
  return <details ref={element} class="picker" onToggle={(event) => setOpen(event.currentTarget.open)}
    onFocusOut={(event) => { if (event.relatedTarget && !event.currentTarget.contains(event.relatedTarget as Element)) close(false); }}
    onKeyDown={(event) => { if (event.key === "Escape" && open) close(true); }}>
    <summary title="Control plane of this page" aria-label={plane ? `Control plane ${plane}` : "Control plane: the server"}>{plane || "this server"}</summary>
    {open && <Names leave={() => close(false)} />}
  </details>;
}

function Names({ leave }: { leave: () => void }) {
  const { data, error } = useLoad((signal) => list(`/apis/${PLANES}`, { ofServer: true, accept: METADATA_LIST, query: { limit: READ }, signal }), []);
  const [text, setText] = useState("");
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => { input.current?.focus(); }, [!data]);
  const wanted = text.trim().toLowerCase();
  const found = (data?.items ?? []).map((item) => item.metadata.name).filter((name) => name !== plane && name.includes(wanted));
  const move = (event: KeyboardEvent) => {
    const links = [...(event.currentTarget as Element).querySelectorAll<HTMLElement>("input, a")], from = links.indexOf(event.target as HTMLElement);
    const to = ({ ArrowDown: from + 1, ArrowUp: from - 1 } as Record<string, number>)[event.key];
    if (to !== undefined) { event.preventDefault(); links[Math.max(0, Math.min(links.length - 1, to))].focus(); }
    else if (event.key === "Enter" && event.target === input.current && wanted && found.length > 0) location.assign(consoleOf(found.includes(wanted) ? wanted : found[0]));
  };
  return <div class="menu" onKeyDown={move}>
    {data && <input ref={input} type="search" placeholder="name" aria-label="Find a control plane" value={text} spellcheck={false} autocomplete="off" onInput={(event) => setText(event.currentTarget.value)} />}
    <ul>
      {plane && !wanted && <li><a href="/">Back to the server</a></li>}
      {data && !wanted && <li><a href={`/#/objects/${PLANES}`} onClick={leave}>All control planes</a></li>}
      {found.slice(0, SHOWN).map((name) => <li key={name}><a href={consoleOf(name)}>{name}</a></li>)}
      {found.length > SHOWN && <li class="muted">and {number(found.length - SHOWN)}{data?.metadata.continue && " or"} more: write a part of the name</li>}
      {data && found.length === 0 && <li class="muted">{wanted ? "No name matches." : plane ? "There are no others." : "There are none yet."}</li>}
      {!data && (error ? <li class="muted">The others are not known: {error.message}</li> : <li><Loading /></li>)}
    </ul>
  </div>;
}
