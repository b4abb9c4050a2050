// Deleting objects, with what goes with them.
import { useEffect, useRef, useState } from "preact/hooks";
import { send, parallel, type Metadata } from "./api";
import { number } from "./format";
import { Dialog } from "./parts";
import { consequences, type Consequences, type Related } from "./owners";
import { hrefOfObject, hrefOfType, isPlanes, pathOf, typeKey, type ApiType } from "./types";

const policies = [
  ["Background", "the object now, its dependents after it"],
  ["Foreground", "the dependents that block it first, then the object"],
  ["Orphan", "the object only; dependents stay without an owner"],
] as const;

export function DeleteDialog({ type, objects, onClose }: { type: ApiType; objects: Metadata[]; onClose: (done: boolean) => void }) {
  const [policy, setPolicy] = useState<string>("Background");
  const [found, setFound] = useState<Consequences | Error>();
  const [failures, setFailures] = useState<string[]>([]);
  const [done, setDone] = useState<number>();
  const button = useRef<HTMLButtonElement>(null);
  const closed = useRef(false);
  useEffect(() => () => { closed.current = true; }, []);
  useEffect(() => { if (failures.length > 0) button.current?.focus(); }, [failures]); // it was disabled meanwhile
  useEffect(() => {
    const abort = new AbortController();
    consequences(type, objects, abort.signal).then((result) => { if (!abort.signal.aborted) setFound(result); }, (error) => { if (!abort.signal.aborted) setFound(error as Error); });
    return () => abort.abort();
  }, []);
  const remove = async () => {
    const failed: string[] = [];
    let finished = 0;
    setDone(0);
    await parallel(objects, 4, async (object) => {
      if (closed.current) return; // what has not begun is not deleted
      try {
        await send(pathOf(type, object.namespace, object.name), {
          method: "DELETE", body: JSON.stringify({ apiVersion: "v1", kind: "DeleteOptions", propagationPolicy: policy, preconditions: { uid: object.uid } }),
        });
      } catch (error) {
        failed.push(`${object.name}: ${(error as Error).message}`);
      }
      if (++finished % 20 === 0) setDone(finished);
    });
    if (closed.current) return;
    setDone(undefined);
    if (failed.length > 0) setFailures(failed); else onClose(true);
  };
  const one = objects.length === 1;
  const finalizers = [...new Set(objects.flatMap((object) => object.finalizers ?? []))];
  return (
    <Dialog title={one ? `Delete ${type.kind} ${objects[0].name}?` : `Delete ${number(objects.length)} objects of ${type.kind}?`} onClose={() => onClose(false)}>
      {!one && <p class="muted">{objects.slice(0, 8).map((object) => object.name).join(", ")}{objects.length > 8 ? " …" : ""}</p>}
      <fieldset><legend>Dependents</legend>
        {policies.map(([name, meaning]) => <label key={name}><input type="radio" name="policy" checked={policy === name} onChange={() => setPolicy(name)} /><span><strong>{name}</strong>: {meaning}</span></label>)}
      </fieldset>
      {isPlanes(type) && <p><strong>All that {one ? "it contains" : "they contain"} is deleted.</strong> Backups and journals stay; with <code>deletion: Archive</code> a last backup is made first.</p>}
      {found === undefined ? <p class="muted" aria-busy="true">Looking for dependents…</p>
        : found instanceof Error ? <p class="bad">The dependents are not known: {found.message}</p>
        : <Result found={found} policy={policy} one={one} />}
      {finalizers.length > 0 && <p class="muted">Finalizers keep {one ? "it" : "some"} until their controllers have answered: {finalizers.join(", ")}</p>}
      {failures.length > 0 && <div class="failure" role="alert"><strong>{number(failures.length)} of {number(objects.length)} could not be deleted</strong><ul>{failures.slice(0, 20).map((failure) => <li key={failure}>{failure}</li>)}</ul></div>}
      <div class="actions">{done !== undefined && !one && <span class="muted" aria-live="polite">{number(done)} of {number(objects.length)}</span>}
        <button onClick={() => onClose(false)}>Cancel</button><button ref={button} class="danger" disabled={done !== undefined} onClick={remove}>Delete</button></div>
    </Dialog>
  );
}

function Result({ found, policy, one }: { found: Consequences; policy: string; one: boolean }) {
  const nothing = found.direct.length + found.controlled.length + found.contained.length === 0;
  return <>
    {found.contained.length > 0 && <><p><strong>All that {one ? "it contains" : "they contain"} is deleted</strong>, with every choice above:</p>
      <ul class="dependents">{found.contained.map(({ type, count }) => <li key={typeKey(type)}>{count === undefined ? "an unknown number of" : number(count)} <a href={hrefOfType(type)}>{type.kind}</a></li>)}</ul></>}
    {nothing && <p class="muted">Nothing depends on {one ? "it" : "them"}.</p>}
    {policy === "Orphan" ? <Items title="These stay, without this owner:" items={found.direct} />
      : <><Items title={policy === "Foreground" ? "These go too, before it if they block its deletion:" : "These go too:"} items={found.collected} />
        <Items title="These stay, because they have another owner:" items={found.kept} /></>}
    <Items title="Its spec refers to these. Its controller deletes them, not the garbage collector:" items={found.controlled} />
    {found.partial.length > 0 && <p class="muted">There may be more: only a part of all {found.partial.join(", ")} was read.</p>}
  </>;
}

function Items({ title, items }: { title: string; items: Related[] }) {
  if (items.length === 0) return null;
  return <><p>{title}</p>
    <ul class="dependents">{items.slice(0, 50).map((item) => <li key={item.metadata.uid}><a href={hrefOfObject(item.type, item.metadata)}>{item.type.kind} {item.metadata.name}</a></li>)}
      {items.length > 50 && <li>and {number(items.length - 50)} more</li>}</ul></>;
}
