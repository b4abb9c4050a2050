// The search of types, and of objects by name.
import { useEffect, useRef, useState } from "preact/hooks";
import { METADATA_LIST, list, parallel } from "./api";
import { counts, listable } from "./counts";
import { go } from "./router";
import { scope } from "./scope";
import { useSignal } from "./signal";
import { apiVersion, hrefOfObject, hrefOfType, isBuiltIn, pathOf, typeKey, types, type ApiType } from "./types";

/** Objects of a type whose names are read; of larger types, only one with just this name is found besides. */
const READ = 1000, CONNECTIONS = 4, SHOWN = 12;
/** Names are read again after this time, in milliseconds. */
const FRESH = 20_000;

interface Hit { href: string; name: string; of: string; rank: number }
interface Name { name: string; namespace?: string }
const names = new Map<string, { read: number; all: Name[]; more: boolean }>();

/** Types whose objects nobody looks for by name: the server makes them, or the types themselves are found. */
const skipped = /^(events(\.|$)|.*\.flowcontrol|apiservices\.|customresourcedefinitions\.|leases\.)/;

const matches = (text: string, words: string[]) => words.every((word) => text.toLowerCase().includes(word));

async function namesOf(type: ApiType, namespace: string, wanted: string, signal: AbortSignal): Promise<Name[]> {
  const key = `${namespace} ${typeKey(type)}`, path = pathOf(type, namespace || undefined);
  const read = async (query: Record<string, string | number>) => {
    const page = await list(path, { accept: METADATA_LIST, query, signal });
    return { all: page.items.map(({ metadata }): Name => ({ name: metadata.name, namespace: metadata.namespace })), more: !!page.metadata.continue };
  };
  let known = names.get(key);
  if (!known || Date.now() - known.read > FRESH) names.set(key, known = { read: Date.now(), ...await read({ limit: READ }) });
  if (!known.more || known.all.some(({ name }) => name === wanted)) return known.all;
  return [...known.all, ...(await read({ fieldSelector: `metadata.name=${wanted.replace(/[\\,=]/g, "\\$&")}` })).all];
}

/** Finds objects by name, in the namespace of the pages, and tells what it has found so far. */
async function findObjects(words: string[], signal: AbortSignal, tell: (hits: Hit[], done: boolean) => void): Promise<void> {
  const namespace = scope.value ?? "", hits: Hit[] = [];
  const wanted = (types.value ?? []).filter((type) => listable(type) && !skipped.test(`${type.resource}.${type.group}`) && (type.namespaced || !namespace))
    .sort((a, b) => Number(isBuiltIn(a)) - Number(isBuiltIn(b)));
  let told = Date.now();
  const shown = () => [...hits].sort((a, b) => a.rank - b.rank || a.name.length - b.name.length || a.name.localeCompare(b.name)).slice(0, SHOWN);
  await parallel(wanted, CONNECTIONS, async (type) => {
    if (signal.aborted) return;
    for (const each of await namesOf(type, namespace, words.join(" "), signal).catch(() => [])) { // a type that may not be listed hides its objects
      if (!words.some((word) => each.name.includes(word)) || !matches(`${each.name} ${each.namespace ?? ""} ${type.kind} ${type.resource}`, words)) continue;
      hits.push({ href: hrefOfObject(type, { ...each }), name: each.name, of: type.kind + (each.namespace ? ` in ${each.namespace}` : ""), rank: (each.name.startsWith(words[0]) ? 0 : 1) + (isBuiltIn(type) ? 2 : 0) });
    }
    if (!signal.aborted && hits.length > 0 && Date.now() - told > 200) { told = Date.now(); tell(shown(), false); }
  });
  if (!signal.aborted) tell(shown(), true);
}

const hasObjects = (type: ApiType) => Number(counts.value.get(typeKey(type))) > 0;

function findTypes(words: string[], known: ApiType[]): Hit[] {
  return known.filter((type) => matches(`${type.kind} ${type.resource} ${type.group} ${type.shortNames.join(" ")}`, words))
    .sort((a, b) => Number(hasObjects(b)) - Number(hasObjects(a)) || a.kind.length - b.kind.length).map((type) => ({ href: hrefOfType(type), name: type.kind, of: apiVersion(type), rank: 0 }));
}

export function Search() {
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState("");
  const [objects, setObjects] = useState<{ hits: Hit[]; done: boolean }>({ hits: [], done: true });
  const input = useRef<HTMLInputElement>(null);
  const known = useSignal(types) ?? [];
  const wanted = text.replace(/^\//, "").trim().toLowerCase(), words = wanted.split(/\s+/).filter(Boolean);
  useEffect(() => {
    setObjects({ hits: [], done: wanted.length < 2 });
    if (wanted.length < 2) return;
    const abort = new AbortController();
    const timer = setTimeout(() => void findObjects(words, abort.signal, (hits, done) => setObjects({ hits, done })), 250);
    return () => { clearTimeout(timer); abort.abort(); };
  }, [wanted]);
  const found = words.length > 0 ? [...findTypes(words, known).slice(0, objects.hits.length > 0 ? SHOWN / 2 : SHOWN), ...objects.hits] : [];
  const selected = Math.max(0, found.findIndex((hit) => hit.href === chosen));
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.key !== "/" || event.ctrlKey || event.metaKey || (event.target as Element).closest("input:not([type=checkbox], [type=radio]), textarea, select, .cm-editor, dialog")) return;
      event.preventDefault();
      input.current?.focus();
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, []);
  const leave = () => { setText(""); setChosen(""); };
  const move = (event: KeyboardEvent, to: number) => { event.preventDefault(); setChosen(found[Math.max(0, Math.min(to, found.length - 1))]?.href ?? ""); };
  return (
    <div class="type-search" role="search" onFocusOut={(event) => { if (!event.currentTarget.contains(event.relatedTarget as Element | null)) leave(); }}>
      <input ref={input} type="text" placeholder="Find types and objects  /" aria-label="Find types and objects" value={text} autocomplete="off" spellcheck={false}
        role="combobox" aria-autocomplete="list" aria-expanded={words.length > 0} aria-controls="found" aria-activedescendant={found[selected] && `found-${selected}`}
        onInput={(event) => { setText(event.currentTarget.value); setChosen(""); }}
        onKeyDown={(event) => {
          if (event.key === "ArrowDown") move(event, selected + 1);
          if (event.key === "ArrowUp") move(event, selected - 1);
          if (event.key === "Escape") leave();
          if (event.key === "Enter" && found[selected]) { go(found[selected].href); leave(); event.currentTarget.blur(); }
        }} />
      {words.length > 0 && <ul class="menu" id="found" role="listbox" aria-label="Found">
        {found.map((hit, i) => <li key={hit.href} id={`found-${i}`} role="option" aria-selected={i === selected} class={hit === objects.hits[0] && i > 0 ? "first" : undefined}>
          <a href={hit.href} tabIndex={-1} class={i === selected ? "selected" : ""} onClick={leave}>{hit.name} <small>{hit.of}</small></a>
        </li>)}
        {!objects.done ? <li class="muted" aria-busy="true">Looking for objects…</li> : found.length === 0 && <li class="muted">{wanted.length < 2 ? "No type matches." : `No type or object${scope.value ? ` in ${scope.value}` : ""} matches.`}</li>}
      </ul>}
    </div>
  );
}
