// The types that are served.
import { useEffect, useMemo, useState } from "preact/hooks";
import { inView } from "./api";
import { number } from "./format";
import { moveFocus, useDebounced, VirtualList } from "./parts";
import { route, setQuery } from "./router";
import { scope } from "./scope";
import { useSignal } from "./signal";
import { count, counts, miscounted, rules, uncount } from "./counts";
import { hrefOfType, isBuiltIn, matchesType, typeKey, types, type ApiType } from "./types";

function TypeRow({ type, grouped }: { type: ApiType; grouped: boolean }) {
  const found = useSignal(counts).get(typeKey(type));
  useEffect(() => {
    let timer = 0, left = false;
    const again = async () => {
      if (inView.value) await count(type);
      if (!left) timer = window.setTimeout(again, miscounted(type) ? 5000 : 20_000);
    };
    void again();
    return () => { left = true; clearTimeout(timer); uncount(type); };
  }, [typeKey(type)]);
  return (
    <div class="type-row" role="row">
      <span><a href={hrefOfType(type)} title={type.kind}>{type.kind}</a>{!grouped && <small> {type.group}</small>}</span>
      <span class="muted wide">{type.versions.join(", ")}</span>
      <span class="muted wide mono">{type.shortNames.join(", ")}</span>
      <span class="muted wide">{type.namespaced ? "namespaced" : "cluster"}</span>
      <span class={typeof found === "number" && found > 0 ? "count" : "count muted"} title={typeof found === "string" ? found : undefined}>
        {found === undefined ? "…" : typeof found === "number" ? number(found) : "–"}</span>
      <a class="wide" href={`#/schema/${typeKey(type)}`}>schema</a>
    </div>
  );
}

export function Types() {
  const known = useSignal(types)!;
  const { query } = useSignal(route);
  const counted = useSignal(counts);
  const populated = query.get("show") === "populated";
  const [progress, setProgress] = useState(0);
  const [text, setText] = useDebounced(query.get("q") ?? "", (q) => setQuery({ q }));
  const words = (query.get("q") ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  useEffect(() => { // what the server has counted needs no request
    let done = 0, told = 0;
    setProgress(0);
    for (const type of known) void count(type).then(() => {
      done++;
      if (done === known.length || Date.now() - told > 200) { told = Date.now(); setProgress(done); }
    });
    return () => { for (const type of known) uncount(type); };
  }, [known, useSignal(scope), useSignal(rules)]);
  const matching = useMemo(() => known.filter((type) => matchesType(type, words)), [known, query.get("q")]);
  const hasObjects = (type: ApiType) => Number(counted.get(typeKey(type))) > 0;
  const shown = populated ? matching.filter(hasObjects) : matching;
  const [toggled, setToggled] = useState<ReadonlySet<string>>(new Set());
  const toggle = (title: string) => setToggled((before) => { const next = new Set(before); if (!next.delete(title)) next.add(title); return next; });
  // A search and the filter show all they find; otherwise types with objects are first, and groups are folded.
  const all = words.length > 0 || populated;
  const items = all ? byGroup(shown, () => true) : [...firstOnes(known.filter(hasObjects)), ...byGroup(shown, (title) => toggled.has(title))];
  return (
    <>
      <div class="title"><h1>Types</h1><span class="muted">{shown.length === known.length ? number(known.length) : `${number(shown.length)} of ${number(known.length)}`}</span></div>
      <div class="toolbar">
        <input type="search" placeholder="kind, group, name" aria-label="Filter types" value={text} onInput={(event) => setText(event.currentTarget.value)} />
        <label><input type="checkbox" checked={populated} onChange={(event) => setQuery({ show: event.currentTarget.checked ? "populated" : undefined })} /> with objects only</label>
        {populated && progress < known.length && <span class="muted" aria-live="polite">counted {number(progress)} of {number(known.length)}</span>}
      </div>
      {items.length > 0 && <div class={`table scroller ${items.length < 8 ? "short" : ""}`} role="table" aria-label="Types" aria-rowcount={items.length + 1} onKeyDown={moveFocus}>
        <div class="type-row head" role="row"><span>Kind</span><span class="wide">Versions</span><span class="wide">Short names</span><span class="wide">Scope</span><span class="count">Objects</span><span class="wide" /></div>
        <VirtualList label="Types" items={items} keyOf={(item) => ("title" in item ? `group ${item.title}` : "first" in item ? `first ${typeKey(item.first)}` : typeKey(item))}
          row={(item) => ("title" in item ? <div class="group-row" role="row">
            {all || item.size === undefined ? <strong>{item.title}</strong> : <a href="#" role="button" aria-expanded={toggled.has(item.title)} onClick={(event) => { event.preventDefault(); toggle(item.title); }}>{toggled.has(item.title) ? "▾" : "▸"} <strong>{item.title}</strong></a>}
            <span class="muted">{item.size === undefined ? "" : number(item.size)}</span></div> : "first" in item ? <TypeRow type={item.first} grouped={false} /> : <TypeRow type={item} grouped />)} />
      </div>}
      {shown.length === 0 && <p class="muted">{populated && progress < known.length ? "Counting objects…" : "No type matches."}</p>}
    </>
  );
}

/** A heading; a group has a size. */
interface Heading { title: string; size?: number }
type Item = Heading | { first: ApiType } | ApiType;

/** The types with objects under a heading, installed ones first. */
function firstOnes(types: ApiType[]): Item[] {
  if (types.length === 0) return [];
  const sorted = [...types.filter((type) => !isBuiltIn(type)), ...types.filter(isBuiltIn)];
  return [{ title: "With objects" }, ...sorted.map((first) => ({ first })), { title: "All groups" }];
}

/** Puts a heading before the types of each group, and leaves out those of folded groups. */
function byGroup(types: ApiType[], open: (title: string) => boolean): Item[] {
  const items: Item[] = [];
  let heading: { title: string; size: number } | undefined;
  for (const type of types) {
    const title = type.group || "core";
    if (heading?.title !== title) items.push(heading = { title, size: 0 });
    heading.size++;
    if (open(title)) items.push(type);
  }
  return items;
}
