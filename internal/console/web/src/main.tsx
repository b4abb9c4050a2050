import { render } from "preact";
import { useEffect, useErrorBoundary, useLayoutEffect, useState } from "preact/hooks";
import { ApiError, connection, epoch, pause, plane, whileInView } from "./api";
import { route, setQuery } from "./router";
import { loadCounts } from "./counts";
import { choose, loadNamespaces, namespaces, scope } from "./scope";
import { useSignal } from "./signal";
import { loadTypes, PLANES, types } from "./types";
import { PlanePicker, usePlanes } from "./planes";
import { Failure, Loading } from "./parts";
import { Overview } from "./overview";
import { Types } from "./catalog";
import { Objects } from "./objects";
import { ObjectPage } from "./object";
import { EditPage } from "./edit";
import { SchemaPage } from "./schema";
import { Search } from "./search";
import { Access } from "./access";
import "uplot/dist/uPlot.min.css";
import "./style.css";

const pages: Record<string, () => any> = {
  "": Overview, types: Types, objects: Objects, object: ObjectPage, edit: EditPage, new: EditPage, schema: SchemaPage, access: Access,
};
const navigation = [["", "Overview"], ["types", "Types"], ["access", "Access"]], planes = ["objects/" + PLANES, "Control planes"];

/** Chooses the namespace of the pages: one of the list, or any name if they may not be listed. */
function NamespacePicker() {
  const { parts, query } = useSignal(route);
  const names = useSignal(namespaces), chosen = useSignal(scope) ?? "";
  const value = (parts[0] === "objects" && query.get("ns")) || chosen;
  const pick = (name: string) => { choose(name); if (query.has("ns")) setQuery({ ns: undefined }); };
  if (names) return (
    <select class="namespace" aria-label="Namespace" value={value} onChange={(event) => pick(event.currentTarget.value)}>
      <option value="">all namespaces</option>
      {[...new Set([...names, ...(value ? [value] : [])])].map((name) => <option key={name} value={name} selected={name === value}>{name}</option>)}
    </select>
  );
  return <input class="namespace" aria-label="Namespace" placeholder="all namespaces" title="Any namespace, then Enter; empty for all" spellcheck={false} defaultValue={value} key={value}
    onFocus={(event) => event.currentTarget.select()} onChange={(event) => pick(event.currentTarget.value.trim())} />;
}

/** Draws a page. What an API server sends may be of a form that the page does not expect. */
function Drawn({ page: Page }: { page: () => any }) {
  const [error] = useErrorBoundary();
  return error ? <Failure error={error} doing="show this page" /> : <Page />;
}

function App() {
  const { parts } = useSignal(route);
  const state = useSignal(connection);
  const round = useSignal(epoch);
  const served = useSignal(types), namespace = useSignal(scope);
  const many = usePlanes();
  const known = served !== undefined && namespace !== undefined;
  const [error, setError] = useState<Error>();
  useEffect(() => {
    const abort = new AbortController();
    void whileInView(abort.signal, async (shown) => {
      while (!shown.aborted) {
        await loadNamespaces(shown);
        void loadCounts(shown);
        try { await loadTypes(shown); setError(undefined); } catch (failure) { if (!shown.aborted) setError(failure as Error); }
        await pause(10_000, shown);
      }
    });
    return () => abort.abort();
  }, [round, namespace]);
  // With the page, not after it: a person may have moved the focus then.
  useLayoutEffect(() => {
    document.title = [...parts.slice(1).slice(-1), ...(plane ? [plane] : []), "kube-hyper-mini"].join(" – "); // the name of an object or a type, for tabs and the history
    document.querySelector("main")?.focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }, [parts.join("/")]);
  const writes = parts[0] === "edit" || parts[0] === "new";
  if (state === "expired" && !writes) return (
    <main class="ended" tabIndex={-1}><h1>The session of this page has ended</h1>
      <p>A session ends after 12 hours, after an hour without a page in view, and when the console is started again. The terminal of <code>kube-hyper-mini console</code> shows a new address as soon as you <a href="/">reload the page</a>, or start it again.</p></main>
  );
  const Page = pages[parts[0] ?? ""];
  const lost = plane && (!served || error instanceof ApiError && error.code === 404) && error; // it fails, does not exist or was deleted
  return (
    <>
      <header>
        <a class="brand" href="#/">kube-hyper-mini</a>
        <span class="context" title="context of the kubeconfig">{document.querySelector<HTMLMetaElement>("meta[name=kube-context]")?.content}</span>
        <PlanePicker />
        <nav aria-label="Pages">
          {[...navigation, ...(many ? [planes] : [])].map(([path, title]) => <a key={path} href={`#/${path}`} aria-current={[parts[0] ?? "", parts.join("/")].includes(path) ? "page" : undefined}>{title}</a>)}
        </nav>
        <NamespacePicker />
        <Search />
      </header>
      {state === "expired" && <div class="banner" role="alert">The session of this page has ended. Copy your text, then open the new address: the terminal of <code>kube-hyper-mini console</code> shows it as soon as you <a href="/">reload the page</a>, or start it again.</div>}
      {state === "refused" && plane && <div class="banner" role="alert">The control plane {plane} does not accept you: it is open to who may <code>update</code> its subresource <code>controlplanes/admin</code> on the server. <a href="/">Back to the server</a></div>}
      {state === "refused" && !plane && <div class="banner" role="alert">The API server refuses the credentials of the kubeconfig: they have expired or were revoked. Log in again, or replace the kubeconfig, and start the console again.</div>}
      {state === "other" && <div class="banner" role="alert">Another server answers at the address of the API server: its certificate is not that of the kubeconfig, as after a reset. End the console with Ctrl-C and start it again: it then uses the kubeconfig of the new server.</div>}
      {state === "down" && <div class="banner" role="alert">The API server does not answer. This page continues as soon as it does.</div>}
      {state === "away" && <div class="banner" role="alert">The console does not answer. If it has ended, start <code>kube-hyper-mini console</code> again and open the address that it prints.</div>}
      <main tabIndex={-1}>
        {lost ? <><div class="title"><h1>{plane}</h1></div><Failure error={lost} doing="use this control plane" /><p><a href="/">Back to the server</a></p></> : !Page ? <><h1>Not found</h1><p>No page has this address. <a href="#/">Overview</a></p></>
          : known || Page === Overview ? <Drawn key={parts.join("/") + (writes ? "" : "#" + round)} page={Page} />
          : error ? <Failure error={error} doing="load the types" /> : <Loading />}
      </main>
    </>
  );
}

render(<App />, document.getElementById("app")!);
