// What an object is at a glance: conditions, spec, status, data, relations, metadata.
import { useState } from "preact/hooks";
import type { KubeObject } from "./api";
import { conditionsOf, toneOf, type Condition } from "./conditions";
import { number } from "./format";
import { contained, tree } from "./owners";
import { Age, Loading, Pill } from "./parts";
import { EVERY, usePolled } from "./polled";
import { Tree } from "./tree";
import { toJson } from "./text";
import { TypeCounts } from "./things";
import { hrefOfReference, type ApiType } from "./types";

export function Summary({ type, object }: { type: ApiType; object: KubeObject }) {
  const { apiVersion, kind, metadata, spec, status, data, stringData, binaryData, ...rest } = object;
  const { conditions, ...state } = status ?? {};
  return (
    <>
      {conditionsOf(status).map(({ of, conditions }) => <section key={of}><h2>Conditions{of && ` of ${of}`}</h2><Conditions conditions={conditions} /></section>)}
      {type.group === "" && type.resource === "namespaces" && <Content type={type} object={object} />}
      <Part title="Spec" value={spec} /><Part title="Status" value={state} />
      {isSecret(object) ? <Keys data={data ?? {}} /> : <><Part title="Data" value={data} /><Part title="Binary data" value={binaryData && Object.keys(binaryData)} /></>}
      <Part title="Fields" value={Object.fromEntries(Object.entries(rest).filter(([, value]) => isPlain(value)))} />
      {Object.entries(rest).map(([name, value]) => isPlain(value) ? null : <Part key={name} title={name} value={value} />)}
      <Inline type={type} object={object} />
      <Metadata object={object} />
    </>
  );
}

function Metadata({ object }: { object: KubeObject }) {
  const { metadata } = object;
  const labels = Object.entries(metadata.labels ?? {});
  const annotations = Object.entries((isSecret(object) ? masked(object) : object).metadata.annotations ?? {});
  return <section><h2>Metadata</h2><dl>
    <dt>Created</dt><dd><Age time={metadata.creationTimestamp} ago /></dd>
    {metadata.deletionTimestamp && <><dt>Deletion requested</dt><dd><Age time={metadata.deletionTimestamp} ago /></dd></>}
    {metadata.finalizers?.length ? <><dt>Finalizers</dt><dd>{metadata.finalizers.join(", ")}</dd></> : null}
    {metadata.ownerReferences?.map((owner) => {
      const href = hrefOfReference(owner, metadata.namespace);
      return <><dt>{owner.controller ? "Controlled by" : "Owned by"}</dt><dd>{href ? <a href={href}>{owner.kind} {owner.name}</a> : `${owner.kind} ${owner.name}`}</dd></>;
    })}
    {labels.length > 0 && <><dt>Labels</dt><dd>{labels.map(([name, value]) => <span key={name} class="label mono">{name}{value && `=${value}`}</span>)}</dd></>}
  </dl>
  <details class="folded"><summary>{annotations.length > 0 ? `UID, version, ${number(annotations.length)} ${annotations.length === 1 ? "annotation" : "annotations"}` : "UID, version"}</summary><dl>
    <dt>UID</dt><dd class="mono">{metadata.uid}</dd>
    <dt>Resource version</dt><dd class="mono">{metadata.resourceVersion}</dd>
    {annotations.map(([name, value]) => <><dt>{name}</dt><dd class="mono">{value.length > 400 ? value.slice(0, 400) + "…" : value}</dd></>)}
  </dl></details></section>;
}

/** A part of an object, if there is anything in it. */
function Part({ title, value }: { title: string; value: unknown }) {
  if (value === undefined || value === null || (typeof value === "object" && Object.keys(value).length === 0)) return null;
  return <section><h2>{title}</h2><div class="card"><Value value={value} /></div></section>;
}

const isPlain = (value: unknown) => typeof value !== "object" || value === null;

/** A value as a person reads it: fields of fields are indented, large parts are folded. */
function Value({ value, depth = 0 }: { value: unknown; depth?: number }) {
  if (isPlain(value)) return <span class="mono">{value === "" ? '""' : String(value)}</span>;
  if (Array.isArray(value) && value.every(isPlain)) return <span class="mono">{value.map(String).join(", ")}</span>;
  const entries = Array.isArray(value) ? value.map((item, i): [string, unknown] => [String(item?.name ?? item?.type ?? i + 1), item]) : Object.entries(value as object);
  const fields = <dl class="value">{entries.map(([name, each], i) => <><dt key={`${i} ${name}`}>{name}</dt><dd><Value value={each} depth={depth + 1} /></dd></>)}</dl>;
  return depth > 1 && toJson(value).length > 300 ? <details><summary>{number(entries.length)} {Array.isArray(value) ? "items" : "fields"}</summary>{fields}</details> : fields;
}

/** The keys of a Secret; a value is shown when it is asked for. */
function Keys({ data }: { data: Record<string, string>}) {
  const [shown, setShown] = useState<ReadonlySet<string>>(new Set());
  const toggle = (key: string) => setShown((before) => { const next = new Set(before); if (!next.delete(key)) next.add(key); return next; });
  const keys = Object.keys(data);
  return <section><h2>Keys</h2>{keys.length === 0 ? <p class="muted">It has none.</p> : <div class="card"><dl class="keys-of">{keys.map((key) => <>
    <dt class="mono">{key}</dt><dd><span class="mono">{shown.has(key) ? decoded(data[key]) : "••••••"}</span> <button class="link" aria-label={`${shown.has(key) ? "Hide" : "Show"} ${key}`} onClick={() => toggle(key)}>{shown.has(key) ? "hide" : "show"}</button></dd></>)}</dl></div>}</section>;
}

/** The text of a value; of one that is no text, its size. */
function decoded(value: string): string {
  try {
    const bytes = Uint8Array.from(atob(value), (c) => c.charCodeAt(0));
    try { return new TextDecoder("utf-8", { fatal: true }).decode(bytes); } catch { return `${number(bytes.length)} bytes that are no text`; }
  } catch { return value; }
}

/** What a namespace contains. */
function Content({ type, object }: { type: ApiType; object: KubeObject }) {
  const { data, error } = usePolled((signal) => contained(type, [object.metadata], signal), [object.metadata.uid], (took) => Math.max(2 * EVERY, 10 * took));
  return <section><h2>Content</h2>{!data ? error ? <p class="muted">{error.message}</p> : <Loading /> : data.every((item) => !item.count) ? <p class="muted">No objects.</p>
    : <TypeCounts found={data.filter((item) => item.count)} query={`?ns=${encodeURIComponent(object.metadata.name)}`} />}</section>;
}

/** Owners and dependents, if there are any. */
function Inline({ type, object }: { type: ApiType; object: KubeObject }) {
  const { data } = usePolled((signal) => tree(type, object, signal), [object.metadata.uid], (took) => Math.max(3 * EVERY, 20 * took));
  if (!data || (data.root.children.length === 0 && data.root.self)) return null;
  return <section><h2>Relations</h2><Tree root={data.root} /></section>;
}

function Conditions({ conditions }: { conditions: Condition[] }) {
  return <ul class="conditions">{conditions.map((condition) => <li key={condition.type}>
    <Pill state={toneOf(condition)}>{condition.type}</Pill>
    <span>{condition.status === "True" ? "" : condition.status === "False" ? "not " : "unknown whether "}{words(condition.type)}{condition.reason ? `: ${condition.reason}` : ""}</span>
    <span class="muted"><Age time={condition.lastTransitionTime} /></span>
    {condition.message && <p>{condition.message}</p>}
  </li>)}</ul>;
}

const words = (type: string) => type.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();

export const isSecret = (object: KubeObject) => object.kind === "Secret" && object.apiVersion === "v1";

/** Replaces the values of a Secret. */
export function masked(object: KubeObject): KubeObject {
  const mask = (values?: Record<string, unknown>) => values && Object.fromEntries(Object.keys(values).map((key) => [key, "••••••"]));
  const copy: KubeObject = { ...object };
  if (object.data) copy.data = mask(object.data);
  if (object.stringData) copy.stringData = mask(object.stringData);
  const applied = "kubectl.kubernetes.io/last-applied-configuration";
  if (object.metadata.annotations?.[applied]) copy.metadata = { ...object.metadata, annotations: { ...object.metadata.annotations, [applied]: "••••••" } };
  return copy;
}
