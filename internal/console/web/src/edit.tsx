// Creating objects, and editing them by a merge patch of what has changed.
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, epoch, get, send, type KubeObject } from "./api";
import { YamlDiff, YamlEditor } from "./editor";
import { schemaOf, skeleton, type Schema } from "./openapi";
import { fieldsOf } from "./object";
import { isSecret } from "./summary";
import { Failure, Loading } from "./parts";
import { go, route } from "./router";
import { useLoad, useSignal } from "./signal";
import { fromJson, fromYaml, toJson, toYaml } from "./text";
import { findType, hrefOfObject, hrefOfType, keyOf, pathOf, type ApiType } from "./types";

const MANAGER = "kube-hyper-mini-console";

/** A text that is not applied yet, the object that it changes, and the text that it began with. */
interface Draft { text: string; live?: KubeObject; begun: string }
/** The drafts by address, until the page is closed: a link must not lose what was written. */
const drafts = new Map<string, Draft>();
window.addEventListener("beforeunload", (event) => { if (drafts.size > 0) event.preventDefault(); });

export function EditPage() {
  const { parts, query } = useSignal(route);
  const type = findType(keyOf(parts[1], parts[2], parts[3]));
  const create = parts[0] === "new";
  const [shown, setShown] = useState(false);
  const loaded = useLoad(async (signal) => {
    if (!type) throw new Error("the server does not serve this type");
    const schema = await schemaOf(type).catch((): Schema | undefined => undefined); // without it the server checks alone
    const object = create ? undefined : await get(pathOf(type, parts[4] === "-" ? undefined : parts[4], parts[5]), { signal, exact: true });
    return { schema, object };
  }, []);
  const round = useSignal(epoch);
  useEffect(() => { if (loaded.error && !loaded.data) loaded.reload(); }, [round]); // the server is back
  if (loaded.error && !loaded.data) return <Failure error={loaded.error} doing="load the object" />;
  if (!type || !loaded.data) return <Loading />;
  if (loaded.data.object && isSecret(loaded.data.object) && !shown) return <>
    <div class="title"><h1>Edit {parts[5]}</h1></div>
    <p>The editor shows the values of this Secret.</p><p><button class="primary" onClick={() => setShown(true)}>Show the values</button></p></>;
  return <Editor type={type} schema={loaded.data.schema} live={loaded.data.object} namespace={query.get("ns") ?? ""} address={parts.join("/")} />;
}

/** Leaves out what the server sets. */
export function editable(object: KubeObject): any {
  const { status, ...rest } = object;
  const { managedFields, uid, resourceVersion, creationTimestamp, generation, deletionTimestamp, deletionGracePeriodSeconds, selfLink, ...metadata } = object.metadata as any;
  const { "kubectl.kubernetes.io/last-applied-configuration": _, ...annotations } = metadata.annotations ?? {};
  if (metadata.annotations) metadata.annotations = annotations;
  if (Object.keys(annotations).length === 0) delete metadata.annotations;
  return { ...rest, metadata };
}

const isMap = (value: unknown) => typeof value === "object" && value !== null && !Array.isArray(value);

/** Whether a field is null, which a JSON merge patch cannot set; items of lists can be. */
const hasNull = (value: unknown): boolean => isMap(value) && Object.values(value as object).some((field) => field === null || hasNull(field));

/** The JSON merge patch that makes one value of another; undefined if they are the same. */
function mergePatch(from: any, to: any): any {
  if (!isMap(from) || !isMap(to)) return toJson(from) === toJson(to) ? undefined : to;
  const fields = [...new Set([...Object.keys(from), ...Object.keys(to)])]
    .map((name) => [name, Object.hasOwn(to, name) ? mergePatch(from[name], to[name]) : null]).filter(([, value]) => value !== undefined);
  return fields.length > 0 ? Object.fromEntries(fields) : undefined;
}

interface Owned { field: string; manager: string }

/** The fields that other managers own in an object, and no longer in what became of it. */
function taken(before: KubeObject, after: KubeObject): Owned[] {
  const others = (object: KubeObject) => (object.metadata.managedFields ?? []).filter((entry) => entry.manager !== MANAGER)
    .flatMap((entry) => fieldsOf(entry).map((field): Owned => ({ field, manager: entry.manager })));
  const left = new Set(others(after).map(({ field }) => field)); // the server may merge the entries of old managers
  return others(before).filter(({ field }) => !left.has(field));
}

function Editor({ type, schema, live: opened, namespace, address }: { type: ApiType; schema: Schema | undefined; live?: KubeObject; namespace: string; address: string }) {
  const start = (object?: KubeObject): Draft => { const begun = toYaml(object ? editable(object) : skeleton(type, schema, namespace)); return { live: object, begun, text: begun }; };
  const [draft, show] = useState(() => drafts.get(address) ?? start(opened));
  const newest = useRef(draft);
  const setDraft = (changes: Partial<Draft>) => {
    newest.current = { ...newest.current, ...changes };
    if (newest.current.text !== newest.current.begun) drafts.set(address, newest.current); else drafts.delete(address);
    show(newest.current);
  };
  const { text, live } = draft;
  const [kept, setKept] = useState(() => drafts.has(address));
  const [edition, setEdition] = useState(0);
  const [review, setReview] = useState<{ before: string; after: string; taken: string[] }>();
  const [owned, setOwned] = useState<Owned[]>([]);
  const [error, setError] = useState<Error>();
  const [busy, setBusy] = useState(false);
  // The focus follows what was asked for: its element may be gone or disabled.
  const primary = useRef<HTMLButtonElement>(null), reviewed = useRef<HTMLParagraphElement>(null), area = useRef<HTMLDivElement>(null), first = useRef(true);
  useEffect(() => {
    if (review) reviewed.current?.focus(); else if (!first.current) area.current?.querySelector<HTMLElement>(".cm-content")?.focus();
    first.current = false;
  }, [review]);
  useEffect(() => { if (!busy && document.activeElement === document.body) primary.current?.focus(); }, [busy]);
  const apply = async (dryRun: boolean): Promise<KubeObject> => {
    let object: any;
    try { object = fromYaml(text); } catch (problem) { throw new Error("this is not YAML: " + (problem as Error).message); }
    if (!object || typeof object !== "object" || !object.metadata?.name && (live || !object.metadata?.generateName)) throw new Error("metadata.name is missing");
    if (live && (object.metadata.name !== live.metadata.name || (object.metadata.namespace ?? "") !== (live.metadata.namespace ?? ""))) throw new Error("an object's name and namespace cannot be changed: create another object");
    if (!live && type.namespaced && !object.metadata.namespace) throw new Error("metadata.namespace is missing");
    const query = { fieldManager: MANAGER, fieldValidation: "Strict", dryRun: dryRun ? "All" : undefined };
    const path = pathOf(type, object.metadata.namespace, live ? object.metadata.name : undefined);
    if (!live) return fromJson(await (await send(path, { method: "POST", query, body: toJson(object) })).text());
    const begun = fromYaml(draft.begun);
    begun.metadata.annotations ??= {};
    object.metadata.annotations ??= {}; // null would also remove those that the editor does not show
    if (hasNull(object) && !hasNull(begun)) throw new Error("null would remove the field here: delete it from the text, or set null with kubectl");
    const patch = { ...mergePatch(begun, object) };
    for (let tries = 0; ; tries++) {
      // The version that the editor began with: a later change is a conflict, unless it is one of what the editor does not show.
      patch.metadata = { ...patch.metadata, resourceVersion: newest.current.live!.metadata.resourceVersion };
      try {
        return fromJson(await (await send(path, { method: "PATCH", query, body: toJson(patch), contentType: "application/merge-patch+json" })).text());
      } catch (error) {
        if (!(error instanceof ApiError) || error.reason !== "Conflict" || tries === 3) throw error;
        const current = await get(path, { exact: true });
        if (toYaml(editable(current)) !== toYaml(editable(live))) throw error;
        setDraft({ live: current });
      }
    }
  };
  const run = async (task: () => Promise<void>) => {
    setBusy(true);
    setError(undefined);
    setOwned([]);
    try { await task(); } catch (failure) { setError(failure as Error); }
    setBusy(false);
  };
  /** Reviews the text. Before it takes over fields of others, it asks. */
  const check = (asked = false) => run(async () => {
    const result = await apply(true);
    const others = live ? taken(newest.current.live!, result) : [];
    if (others.length > 0 && !asked) setOwned(others);
    else setReview({ before: live ? toYaml(editable(live)) : "", after: toYaml(editable(result)), taken: [...new Set(others.map(({ field }) => field))] });
  });
  /** Takes the current version as the one to change; the review then shows what the text would undo. */
  const rebase = () => run(async () => {
    setDraft({ live: await get(pathOf(type, live!.metadata.namespace, live!.metadata.name), { exact: true }) });
    setReview(undefined);
  });
  /** Drops the text and begins with the current version. */
  const restart = () => run(async () => {
    setDraft(start(live && await get(pathOf(type, live.metadata.namespace, live.metadata.name), { exact: true })));
    setKept(false);
    setReview(undefined);
    setEdition((n) => n + 1);
  });
  const save = () => run(async () => {
    const { metadata } = await apply(false);
    drafts.delete(address);
    go(metadata.deletionTimestamp && !metadata.finalizers?.length ? hrefOfType(type) : hrefOfObject(type, metadata)); // without the last finalizer it is gone
  });
  const latest = useRef(check);
  latest.current = async () => { if (!busy) await check(); };
  return (
    <>
      <div class="title"><h1>{live ? `Edit ${live.metadata.name}` : `Create ${type.kind}`}</h1><span class="buttons">
        <a class="button" href={live ? hrefOfObject(type, live.metadata) : hrefOfType(type)} onClick={() => drafts.delete(address)}>Cancel</a>
        {review ? <><button onClick={() => { setReview(undefined); setError(undefined); }}>Back to the editor</button><button key="save" ref={primary} class="primary" disabled={busy} onClick={save}>{live ? "Apply" : "Create"}</button></>
          : <button key="review" ref={primary} class="primary" disabled={busy} onClick={() => check()}>Review</button>}</span></div>
      {kept && !review && <p class="notice">This text is from before and is not applied. <button onClick={restart}>Begin with the current version</button></p>}
      {owned.length > 0 ? <TakeOver owned={owned} onConfirm={() => check(true)} />
        : error instanceof ApiError && error.reason === "Conflict" && live ? <Question title="The object has changed since you began"><p>Compare your text with the current version before you apply it: it may undo the other change. <button onClick={rebase}>Keep the text, use the current version</button></p></Question>
        : error && <Failure error={error} doing={review ? (live ? "apply" : "create") : "review"} />}
      {error instanceof ApiError && error.causes.length > 0 && <ul class="failure">{error.causes.map((cause) => <li key={cause.field}><code>{cause.field}</code> {cause.message}</li>)}</ul>}
      {review && <><p class="muted" ref={reviewed} tabIndex={-1}>What the server makes of it in a dry run, with defaults and admission{review.before === review.after ? ": nothing changes" : ""}.
        {review.taken.length > 0 && <strong> Apply takes over {review.taken.join(", ")}.</strong>}</p><YamlDiff before={review.before} after={review.after} /></>}
      <div hidden={!!review} ref={area}><YamlEditor key={edition} initial={text} schema={schema} onChange={(next) => setDraft({ text: next })} onReview={() => void latest.current()} /></div>
    </>
  );
}

/** A failure with a choice. It takes the focus, also from the editor. */
function Question({ title, notice, children }: { title: string; notice?: boolean; children: ComponentChildren }) {
  const element = useRef<HTMLDivElement>(null);
  useEffect(() => { element.current?.focus(); }, []);
  return <div ref={element} class={notice ? "notice" : "failure"} role="alert" tabIndex={-1}><strong>{title}</strong>{children}</div>;
}

function TakeOver({ owned, onConfirm }: { owned: Owned[]; onConfirm: () => void }) {
  const owners = <ul>{owned.map(({ field, manager }) => <li key={`${field} ${manager}`}><code>{field}</code> is owned by {manager}</li>)}</ul>;
  // What another manager sets, it may set again.
  if (owned.every(({ manager }) => manager.startsWith("kubectl"))) return <Question title="A person has set fields that you change" notice>
    {owners}<p>They were set with kubectl, which changes them back only when the person applies them again. <button class="primary" onClick={onConfirm}>Take the fields over</button></p></Question>;
  return <Question title="Other managers own fields that you change">
    {owners}<p>Their controllers may change them back. <button class="danger" onClick={onConfirm}>Take the fields over</button></p></Question>;
}
