// Deleting objects, with what goes with them.
import { useEffect, useState } from "preact/hooks";
import { send, parallel, type Metadata } from "./api";
import { number } from "./format";
import { Dialog } from "./parts";
import { findDependents, type Related } from "./owners";
import { hrefOfObject, pathOf, type ApiType } from "./types";

const policies = [
  ["Background", "the object now, its dependents after it"],
  ["Foreground", "the dependents that block it first, then the object"],
  ["Orphan", "the object only; dependents stay without an owner"],
] as const;

export function DeleteDialog({ type, objects, onClose }: { type: ApiType; objects: Metadata[]; onClose: (done: boolean) => void }) {
  const [policy, setPolicy] = useState<string>("Background");
  const [dependents, setDependents] = useState<Related[]>();
  const [failures, setFailures] = useState<string[]>([]);
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    const abort = new AbortController();
    findDependents(objects, abort.signal).then((found) => { if (!abort.signal.aborted) setDependents(found); }, () => setDependents(undefined));
    return () => abort.abort();
  }, []);
  const remove = async () => {
    setBusy(true);
    const failed: string[] = [];
    await parallel(objects, 8, async (object) => {
      try {
        await send(pathOf(type, object.namespace, object.name), {
          method: "DELETE", body: JSON.stringify({ apiVersion: "v1", kind: "DeleteOptions", propagationPolicy: policy, preconditions: { uid: object.uid } }),
        });
      } catch (error) {
        failed.push(`${object.name}: ${(error as Error).message}`);
      }
    });
    setBusy(false);
    if (failed.length > 0) setFailures(failed); else onClose(true);
  };
  const one = objects.length === 1;
  return (
    <Dialog title={one ? `Delete ${type.kind} ${objects[0].name}?` : `Delete ${number(objects.length)} objects of ${type.kind}?`} onClose={() => onClose(false)}>
      {!one && <p class="muted">{objects.slice(0, 8).map((object) => object.name).join(", ")}{objects.length > 8 ? " …" : ""}</p>}
      <fieldset><legend>Dependents</legend>
        {policies.map(([name, meaning]) => <label key={name}><input type="radio" name="policy" checked={policy === name} onChange={() => setPolicy(name)} /> {name}: {meaning}</label>)}
      </fieldset>
      {dependents === undefined ? <p class="muted" aria-busy="true">Looking for dependents…</p>
        : dependents.length === 0 ? <p class="muted">Nothing depends on {one ? "it" : "them"}.</p>
        : <><p>{policy === "Orphan" ? "These lose their owner:" : "These go as well, unless they have another owner:"}</p>
          <ul class="dependents">{dependents.slice(0, 50).map((item) => <li key={item.metadata.uid}><a href={hrefOfObject(item.type, item.metadata)}>{item.type.kind} {item.metadata.name}</a></li>)}
            {dependents.length > 50 && <li>and {number(dependents.length - 50)} more</li>}</ul></>}
      {objects.some((object) => object.finalizers?.length) && <p class="muted">Finalizers keep {one ? "it" : "some"} until their controllers have answered: {[...new Set(objects.flatMap((object) => object.finalizers ?? []))].join(", ")}</p>}
      {failures.length > 0 && <div class="failure" role="alert"><strong>{number(failures.length)} of {number(objects.length)} could not be deleted</strong><ul>{failures.slice(0, 20).map((failure) => <li key={failure}>{failure}</li>)}</ul></div>}
      <div class="actions"><button onClick={() => onClose(false)}>Cancel</button><button class="danger" disabled={busy} onClick={remove}>Delete</button></div>
    </Dialog>
  );
}
