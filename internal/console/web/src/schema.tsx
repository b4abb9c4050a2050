// The documentation of a type, as `kubectl explain --recursive` says it.
import { useEffect, useState } from "preact/hooks";
import { number } from "./format";
import { Failure, Loading, useDebounced } from "./parts";
import { childrenOf, DEEP, described, itemOf, schemaOf, typeName, type Schema } from "./openapi";
import { go, route, setQuery } from "./router";
import { useLoad, useSignal } from "./signal";
import { apiVersion, findType, hrefOfType, keyOf, type ApiType } from "./types";

/** A field and where it is. */
interface Field { path: string; name: string; type: string; schema: Schema; required: boolean; limits: string[]; children: [string, Schema][] }

function fieldsOf(schema: Schema, parent: string): Field[] {
  const required = new Set(schema.required ?? []);
  return childrenOf(schema).map(([name, child]) => {
    const inner = innermost(child);
    return { path: parent ? `${parent}.${name}` : name, name, type: typeName(child), schema: described(inner, child.description), required: required.has(name), children: childrenOf(inner),
      limits: [...limitsOf(child), ...(inner === child ? [] : limitsOf(inner).map((limit) => `each ${limit}`))] };
  });
}

/** The schema of the items of lists and maps, of their items, and so on. */
function innermost(schema: Schema): Schema {
  for (let depth = 0; depth < DEEP; depth++) {
    const item = itemOf(schema);
    if (!item) break;
    schema = item;
  }
  return schema;
}

/** All fields, to a depth; recursive schemas end there. */
function flatten(schema: Schema, parent = "", depth = 0, into = new Map<string, Field>()): Map<string, Field> {
  if (depth > DEEP || into.size > 20_000) return into;
  for (const field of fieldsOf(schema, parent)) {
    into.set(field.path, field);
    if (field.children.length) flatten(field.schema, field.path, depth + 1, into);
  }
  return into;
}

export function SchemaPage() {
  const { parts, query } = useSignal(route);
  const type = findType(keyOf(parts[1], parts[2], parts[3]));
  const other = query.get("compare") ?? "";
  const [text, setText] = useDebounced(query.get("q") ?? "", (q) => setQuery({ q }));
  const loaded = useLoad(async () => {
    if (!type) throw new Error("the server does not serve this type");
    const second = other ? findType(keyOf(type.group, other, type.resource)) : undefined;
    return { schema: await schemaOf(type), second: second && await schemaOf(second), other };
  }, [other]);
  if (!type || loaded.error) return <><h1>{parts[3]}</h1><Failure error={loaded.error ?? new Error("the server does not serve this type")} doing="read the schema" /></>;
  const q = (query.get("q") ?? "").toLowerCase();
  return (
    <>
      <p class="crumbs"><a href={hrefOfType(type)}>{type.kind}</a> {apiVersion(type)}</p>
      <div class="title"><h1>Schema of {type.kind}</h1><span class="grow" />
        {type.versions.length > 1 && <>
          <label>Version <select aria-label="Version" onChange={(event) => go(`#/schema/${keyOf(type.group, event.currentTarget.value, type.resource)}`)}>{type.versions.map((version) => <option key={version} selected={version === type.version}>{version}</option>)}</select></label>
          <label>Compare with <select aria-label="Compare with" onChange={(event) => setQuery({ compare: event.currentTarget.value })}>
            <option value="">nothing</option>{type.versions.filter((version) => version !== type.version).map((version) => <option key={version} value={version} selected={version === other}>{version}</option>)}</select></label></>}
      </div>
      {!loaded.data || loaded.data.other !== other ? <Loading /> : loaded.data.second
        ? <Comparison type={type} other={other} first={flatten(loaded.data.schema)} second={flatten(loaded.data.second)} />
        : <>
          <p class="description">{loaded.data.schema.description}</p>
          <div class="toolbar"><input type="search" placeholder="field or text" aria-label="Search the schema" value={text} onInput={(event) => setText(event.currentTarget.value)} />
            {!q && <label><input type="checkbox" checked={query.has("all")} onChange={(event) => setQuery({ all: event.currentTarget.checked ? "yes" : undefined })} /> all fields</label>}</div>
          {q ? <Found schema={loaded.data.schema} q={q} /> : <Fields key={query.get("all") ?? ""} schema={loaded.data.schema} parent="" open={query.get("path") ?? ""} all={query.has("all")} />}
        </>}
    </>
  );
}

function Fields({ schema, parent, open, all }: { schema: Schema; parent: string; open: string; all: boolean }) {
  const common = (field: Field) => Number(!parent && ["apiVersion", "kind", "metadata"].includes(field.path)); // after what is the type's own
  return <ul class="fields-tree">{fieldsOf(schema, parent).sort((a, b) => common(a) - common(b)).map((field) => <FieldItem key={field.path} field={field} open={open} all={all} />)}</ul>;
}

function FieldItem({ field, open, all }: { field: Field; open: string; all: boolean }) {
  const leads = open === field.path || open.startsWith(field.path + ".");
  const [expanded, setExpanded] = useState(leads || field.path === "spec" || (all && field.path.split(".").length < DEEP));
  useEffect(() => { if (open === field.path) document.getElementById(`field-${field.path}`)?.scrollIntoView({ block: "center" }); }, []);
  return <li id={`field-${field.path}`} class={open === field.path ? "selected" : ""}>
    <div class="field">
      {field.children.length > 0 ? <button class="link" aria-expanded={expanded} onClick={() => setExpanded(!expanded)}>{expanded ? "▾" : "▸"} {field.name}</button> : <span class="leaf">{field.name}</span>}
      <span class="type">{field.type}</span>{field.required && <span class="required">required</span>}
      <button class="link anchor" title="link to this field" aria-label={`Link to ${field.path}`} onClick={() => setQuery({ path: field.path })}>#</button>
    </div>
    <Details field={field} />
    {expanded && field.children.length > 0 && <Fields schema={field.schema} parent={field.path} open={open} all={all} />}
  </li>;
}

/** What the schema allows, in words. */
function limitsOf(schema: Schema): string[] {
  const between = (least: number | undefined, most: number | undefined, what: string) => [least !== undefined && `at least ${least}${what}`, most !== undefined && `at most ${most}${what}`];
  return [
    schema.enum && `one of ${schema.enum.join(", ")}`, schema.default !== undefined && `default ${JSON.stringify(schema.default)}`,
    schema.pattern && `pattern ${schema.pattern}`, ...between(schema.minimum, schema.maximum, ""), ...between(schema.minLength, schema.maxLength, " characters"), ...between(schema.minItems, schema.maxItems, " items"), schema.format,
    ...((schema["x-kubernetes-validations"] ?? []) as { rule: string; message?: string }[]).map(({ rule, message }) => message || rule),
  ].filter((text): text is string => !!text);
}

function Details({ field: { schema, limits } }: { field: Field }) {
  return <>{schema.description && <p class="description">{schema.description}</p>}{limits.length > 0 && <p class="limits">{limits.join("; ")}</p>}</>;
}

/** Matches that are shown. */
const MAX_FOUND = 200;

function Found({ schema, q }: { schema: Schema; q: string }) {
  const found = [...flatten(schema).values()].filter((field) => field.path.toLowerCase().includes(q) || field.schema.description?.toLowerCase().includes(q));
  return <ul class="fields-tree">{found.slice(0, MAX_FOUND).map((field) => <li key={field.path}><div class="field">
    <a href={`${location.hash.split("?")[0]}?path=${encodeURIComponent(field.path)}`}>{field.path}</a><span class="type">{field.type}</span>{field.required && <span class="required">required</span>}</div><Details field={field} /></li>)}
    {found.length > MAX_FOUND && <li class="muted">{number(found.length - MAX_FOUND)} more fields match.</li>}
    {found.length === 0 && <li class="muted">No field matches.</li>}</ul>;
}

function Comparison({ type, other, first, second }: { type: ApiType; other: string; first: Map<string, Field>; second: Map<string, Field> }) {
  const describe = (field?: Field) => (field ? [field.type, ...(field.required ? ["required"] : []), ...field.limits].join(", ") : "–");
  const paths = [...new Set([...first.keys(), ...second.keys()])].filter((path) => describe(first.get(path)) !== describe(second.get(path)))
    .filter((path, _, all) => !all.some((parent) => parent !== path && path.startsWith(parent + ".") && (!first.has(parent) || !second.has(parent)))).sort();
  return <table class="plain"><thead><tr><th>Field</th><th>{type.version}</th><th>{other}</th></tr></thead>
    <tbody>{paths.map((path) => <tr key={path}><td class="mono">{path}</td><td>{describe(first.get(path))}</td><td>{describe(second.get(path))}</td></tr>)}
      {paths.length === 0 && <tr><td colSpan={3}>The fields of both versions are the same.</td></tr>}</tbody></table>;
}
