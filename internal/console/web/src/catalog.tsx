// The types that are served.
import { useEffect, useState } from "preact/hooks";
import { number } from "./format";
import { moveFocus, useDebounced, VirtualList } from "./parts";
import { route, setQuery } from "./router";
import { useSignal } from "./signal";
import { apiVersion, count, counts, forgetCounts, hrefOfType, typeKey, types, type ApiType } from "./types";

function TypeRow({ type }: { type: ApiType }) {
  const found = useSignal(counts).get(typeKey(type));
  useEffect(() => { void count(type); }, [typeKey(type)]);
  return (
    <div class="type-row" role="row">
      <a href={hrefOfType(type)}>{type.kind}</a>
      <span class="muted wide">{apiVersion(type)}</span>
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
  useEffect(() => {
    if (!populated) return;
    let shown = true, done = 0;
    forgetCounts();
    void Promise.all(known.map((type) => count(type).then(() => { done++; if (shown) setProgress(done); })));
    return () => { shown = false; };
  }, [populated, known]);
  const matching = known.filter((type) => {
    const name = `${type.kind} ${type.resource} ${type.group} ${type.shortNames.join(" ")} ${type.categories.join(" ")}`.toLowerCase();
    return words.every((word) => name.includes(word));
  }).filter((type) => !populated || Number(counted.get(typeKey(type))) > 0);
  return (
    <>
      <div class="title"><h1>Types</h1><span class="muted">{number(matching.length)} of {number(known.length)}</span></div>
      <div class="toolbar">
        <input type="search" placeholder="kind, group, short name" aria-label="Filter types" value={text} onInput={(event) => setText(event.currentTarget.value)} />
        <label><input type="checkbox" checked={populated} onChange={(event) => setQuery({ show: event.currentTarget.checked ? "populated" : undefined })} /> with objects only</label>
        {populated && progress < known.length && <span class="muted" aria-live="polite">counted {number(progress)} of {number(known.length)}</span>}
      </div>
      <div class="table" role="table" aria-label="Types" onKeyDown={moveFocus}>
        <div class="type-row head" role="row"><span>Kind</span><span class="wide">API version</span><span class="wide">Scope</span><span class="count">Objects</span><span class="wide" /></div>
        <VirtualList label="Types" items={matching} keyOf={typeKey} row={(type) => <TypeRow type={type} />} />
      </div>
      {matching.length === 0 && <p class="muted">{populated && progress < known.length ? "Counting objects…" : "No type matches."}</p>}
    </>
  );
}
