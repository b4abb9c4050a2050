// The page that begins: objects, events, and the server at a glance.
import { useEffect } from "preact/hooks";
import { ApiError, connection, get, list, parallel, pause, send, whileInView, type KubeObject } from "./api";
import { Chart } from "./chart";
import { bytes, number, span } from "./format";
import { compare, parse, type Calls, type Point, type Sample } from "./metrics";
import { EventList, latestFirst } from "./object";
import { Age, Failure, Loading, Pill } from "./parts";
import { EVERY, usePolled } from "./polled";
import { route, setQuery } from "./router";
import { scope } from "./scope";
import { Signal, useSignal, type Loaded } from "./signal";
import { ThingsOf } from "./things";
import { typeOfKind, hrefOfObject, hrefOfType, types, findType } from "./types";

/** Points of a chart: ten minutes. */
const KEEP = 120;

export function Overview() {
  const server = usePolled(loadServer);
  const metrics = useMetrics();
  const reached = useSignal(connection) === "up";
  if (!server.data && !reached) return <><div class="title"><h1>Overview</h1></div><p class="muted">This page waits for the API server.</p></>;
  // Cards that tell of trouble come first.
  const cards = <div class="cards" key="cards"><Health {...server} /><Server {...server} /><Data {...server} /></div>, trouble = !!server.data && isTroubled(server.data);
  return <>
    <div class="title"><h1>Overview</h1></div>
    {trouble && cards}
    <ThingsOf />
    <Events />
    {!trouble && <><h2>Server</h2>{cards}</>}
    <Charts {...metrics} />
    <Remote metrics={metrics} converters={server.data?.status?.remote?.conversionWebhooks ?? {}} />
  </>;
}

const isTroubled = ({ status, checks }: ServerState) => checks.some((check) => !check.good) || !!status && (!status.ready || status.database.readOnly || status.database.nearQuota || status.database.error);

const optional = <T,>(promise: Promise<T>): Promise<T | undefined> => promise.catch((error) => { if (error instanceof ApiError && (error.code === 404 || error.code === 403)) return undefined; throw error; });

interface Check { good: boolean; name: string; rest: string }
interface ServerState { version: any; status: any; checks: Check[] }

/** All that the cards show, in one round. Other API servers have no status of ours. */
async function loadServer(signal: AbortSignal): Promise<ServerState> {
  const [version, status, text] = await Promise.all([
    get<any>("/version", { signal }), optional(get<any>("/kube-hyper-mini/status", { signal })),
    send("/readyz?verbose", { signal, accept: "text/plain" }).then((answer) => answer.text(), (error: Error) => error.message)]);
  const checks = text.split("\n").map((line) => /^\[([+-])\](\S+) ?(.*)$/.exec(line)).filter((match) => !!match).map(([, sign, name, rest]) => ({ good: sign === "+", name, rest }));
  return { version, status, checks };
}

function Health({ data, error }: Loaded<ServerState>) {
  const known = useSignal(types);
  if (error && !data) return <section class="card"><h2>Ready</h2><Failure error={error} doing="ask the server" /></section>;
  if (!data) return <section class="card"><h2>Ready</h2><Loading /></section>;
  const { checks, status } = data, custom = status?.customTypes;
  const bad = checks.filter((check) => !check.good), ready = bad.length === 0 && status?.ready !== false;
  return <section class="card"><h2>Ready</h2>
    <p class="state">{ready ? <Pill state="good">ready</Pill> : <Pill state="bad">not ready</Pill>} {status?.database.readOnly && <Pill state="bad">read-only</Pill>} {status?.readySince && ready && <span class="muted">for <Age time={status.readySince} /></span>}</p>
    {status?.reason && <p class="bad">{status.reason}</p>}
    {bad.length > 0 && <ul class="plain-list">{bad.map((check) => <li key={check.name}>{check.name} {check.rest}</li>)}</ul>}
    <dl>
      <dt>Types</dt><dd><a href="#/types">{known ? number(known.length) : "…"}</a></dd>
      {custom && <><dt>from CRDs</dt><dd><a href="#/objects/apiextensions.k8s.io/v1/customresourcedefinitions">{number(custom.installed)}</a>, <a href="#/types?show=populated">{number(custom.populated)} with objects</a></dd></>}
      {status?.controllers && <><dt>Controllers</dt><dd>{number(status.controllers.length)} running</dd></>}
      {status?.manifests && <><dt>Manifests</dt><dd>{number(status.manifests.objects)} objects{status.manifests.failures > 0 && <p class="bad">{number(status.manifests.failures)} could not be applied: {status.manifests.error}</p>}</dd></>}
    </dl>
    {bad.length === 0 && checks.length > 0 && <details><summary>{number(checks.length)} {checks.length === 1 ? "check" : "checks"} passed</summary><ul class="plain-list">{checks.map((check) => <li key={check.name}>{check.name}</li>)}</ul></details>}</section>;
}

function Server({ data }: Loaded<ServerState>) {
  const status = data?.status;
  return <section class="card"><h2>Server</h2>{!data ? <Loading /> : <dl>
    {status && <><dt>Running for</dt><dd><Age time={status.started} /></dd><dt>kube-hyper-mini</dt><dd>{status.versions.server}</dd></>}
    <dt>Kubernetes</dt><dd>{data.version.gitVersion}</dd>
    {status && <><dt>etcd</dt><dd>{status.versions.etcd}</dd>
      <dt>Address</dt><dd>{status.server}</dd>
      <dt>Certificates</dt><dd><Certificates ends={status.certificates ?? {}} />{status.certificatesError && <p class="bad">{status.certificatesError}</p>}</dd></>}
  </dl>}</section>;
}

const SOON = 14 * 86400e3;

function Certificates({ ends }: { ends: Record<string, string> }) {
  const sorted = Object.entries(ends).sort(([, a], [, b]) => a.localeCompare(b));
  if (sorted.length === 0) return null;
  const soon = Date.parse(sorted[0][1]) - Date.now() < SOON;
  return <details><summary><span class={soon ? "bad" : undefined}>the first {Date.parse(sorted[0][1]) < Date.now() ? "ended" : "ends"} <Age time={sorted[0][1]} ago /></span></summary>
    <ul class="plain-list">{sorted.map(([name, end]) => <li key={name}>{name}: <Age time={end} ago /></li>)}</ul></details>;
}

function Data({ data }: Loaded<ServerState>) {
  const status = data?.status;
  if (data && !status) return null;
  if (!status) return <section class="card"><h2>Data</h2><Loading /></section>;
  const { database, backups, journal } = status;
  return <section class="card"><h2>Data</h2><dl>
    <dt>Database</dt><dd><Meter used={database.sizeBytes} of={database.quotaBytes} />{[database.readOnly, database.error].filter(Boolean).map((text) => <p key={text} class="bad">{text}</p>)}{database.nearQuota && !database.readOnly && <p class="bad">The quota is nearly used.</p>}</dd>
    <dt>Revision</dt><dd>{number(database.revision)}</dd>
    <dt>Last backup</dt><dd>{backups.last ? <Age time={backups.last} ago /> : <span class="muted">none since the start</span>}{backups.next && <span class="muted">, next <Age time={backups.next} /></span>}{backups.error && <p class="bad">{backups.error}</p>}</dd>
    <dt>Journal</dt><dd>{!journal ? <span class="muted">not configured</span> : <>
      {journal.lagSeconds > 0 ? <span class={journal.lagSeconds > 60 ? "bad" : undefined}>{span(journal.lagSeconds)} behind, {number(journal.lagRevisions)} revisions</span> : "complete"}
      {journal.base && <span class="muted">, base of <Age time={journal.base} ago /></span>}<p class="muted">{journal.destination}</p>{journal.error && <p class="bad">{journal.error}</p>}</>}</dd>
  </dl></section>;
}

function Meter({ used, of }: { used: number; of?: number }) {
  return <>{bytes(used)}{of ? <> of {bytes(of)} <meter min={0} max={of} high={of * 0.8} value={used} /></> : null}</>;
}

/** Calls of a webhook, and whether some of the latest ones that the page knows of have failed. */
type Made = Calls & { failing: boolean };
interface Metrics { points: Point[]; denied?: Error; calls: Map<string, Made>; conversions: Map<string, Made> }

/** Judges the calls since the sample before; without such calls, the judgement before stays. Nothing is known of calls before the first sample. */
function judge(known: Map<string, Made>, before: Map<string, Calls> | undefined, now: Map<string, Calls>): Map<string, Made> {
  return new Map([...now].map(([name, each]) => {
    const old = before ? before.get(name) ?? { total: 0, failed: 0 } : each;
    return [name, { ...each, failing: each.failed > old.failed || (each.total === old.total && !!known.get(name)?.failing) }];
  }));
}

/** What the page knows of the server's metrics: it outlives a visit of another page. */
const history = new Signal<Metrics>({ points: [], calls: new Map(), conversions: new Map() });
let before: Sample | undefined;

/** Follows the server's metrics. */
function useMetrics(): Metrics {
  const metrics = useSignal(history);
  useEffect(() => {
    const abort = new AbortController();
    const set = (change: (known: Metrics) => Metrics) => { history.value = change(history.value); };
    let samples = 0;
    void whileInView(abort.signal, async (shown) => {
      while (!shown.aborted) {
        try {
          const sample = parse(await (await send("/metrics", { signal: shown, accept: "text/plain" })).text(), Date.now() / 1000);
          const point = before && compare(before, sample);
          const last = before;
          before = sample;
          samples++;
          set((known) => ({
            points: point ? [...known.points, point].filter((each) => each.time > sample.time - 5 * KEEP) : known.points,
            calls: judge(known.calls, last?.webhooks, sample.webhooks), conversions: judge(known.conversions, last?.conversions, sample.conversions),
          }));
        } catch (error) {
          if (shown.aborted) return;
          before = undefined;
          if (error instanceof ApiError && error.code === 403) { set((known) => ({ ...known, denied: error })); return; }
          set((known) => ({ ...known, denied: error as Error }));
        }
        await pause(samples === 1 ? 1500 : EVERY, shown);
      }
    });
    return () => abort.abort();
  }, []);
  return metrics;
}

function Charts({ points, denied }: Metrics) {
  if (denied instanceof ApiError && denied.code === 403) return null;
  if (denied && points.length === 0) return <Failure error={denied} doing="read metrics" />;
  return <div class="cards charts">
    <Chart title="Requests per second" points={points} value={(point) => point.requests} />
    <Chart title="99 % answered within, ms" points={points} value={(point) => point.latency} />
    <Chart title="Failures per second" points={points} value={(point) => point.errors} tone="bad" />
  </div>;
}

type State = { tone: "good" | "bad" | "warn" | "idle"; word: string; message?: string };

/** The servers of conversion webhooks that only metrics tell of, by CRD: other API servers have no status of ours. */
const converterOf = new Map<string, Promise<string | undefined>>();
const MAX_CONVERTERS = 100;

async function findConverter(crd: string): Promise<string | undefined> {
  const found = await optional(get<any>(`/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${encodeURIComponent(crd)}`));
  const client = found?.spec?.conversion?.webhook?.clientConfig;
  return client && (client.service ? `${client.service.namespace}/${client.service.name}` : client.url);
}

/** The CRDs that each server converts. */
async function converters(known: Record<string, string>, called: Iterable<string>): Promise<Map<string, string[]>> {
  const servers = new Map<string, string[]>();
  const add = (server: string | undefined, crd: string) => { if (server) servers.set(server, [...(servers.get(server) ?? []), crd]); };
  for (const [crd, server] of Object.entries(known)) add(server, crd);
  await parallel([...called].filter((crd) => !(crd in known)).slice(0, MAX_CONVERTERS), 2, async (crd) => {
    if (!converterOf.has(crd)) converterOf.set(crd, findConverter(crd).catch(() => { converterOf.delete(crd); return undefined; }));
    add(await converterOf.get(crd), crd);
  });
  return servers;
}

/** Remote API servers and webhooks, with what is known of their health. */
function Remote({ metrics, converters: known }: { metrics: Metrics; converters: Record<string, string> }) {
  const { data, error } = usePolled(async (signal) => {
    const listOf = (path: string) => optional(list(path, { signal }));
    const endpointType = types.value?.find((type) => type.kind === "ServiceEndpoint");
    const [services, mutating, validating, endpoints, conversions] = await Promise.all([
      listOf("/apis/apiregistration.k8s.io/v1/apiservices"), listOf("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"),
      listOf("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"), endpointType ? listOf(`/apis/${endpointType.group}/${endpointType.version}/${endpointType.resource}`) : undefined, converters(known, metrics.conversions.keys())]);
    return {
      conversions: [...conversions].sort(([a], [b]) => a.localeCompare(b)),
      services: services?.items.filter((item) => item.spec.service) ?? [], endpoints: endpoints?.items ?? [],
      webhooks: [...(mutating?.items ?? []), ...(validating?.items ?? [])].flatMap((item) => (item.webhooks ?? []).map((hook: any) => ({ item, hook }))) as { item: KubeObject; hook: any }[],
    };
  }, [Object.keys(known).length, metrics.conversions.size]);
  if (error && !data) return <Failure error={error} doing="list remote servers" />;
  if (!data || data.services.length + data.webhooks.length + data.endpoints.length + data.conversions.length === 0) return null;
  const service = (reference: any) => (reference ? `${reference.namespace}/${reference.name}` : "");
  const serverOf = (hook: any): string => service(hook.clientConfig.service) || hook.clientConfig.url;
  const sum = (all: (Made | undefined)[]): Made | undefined => all.reduce((one, other) => (one && other ? { total: one.total + other.total, failed: one.failed + other.failed, failing: one.failing || other.failing } : one ?? other), undefined);
  const condition = (object: KubeObject | undefined, name: string): State => {
    const found = object?.status?.conditions?.find((each: any) => each.type === name);
    if (!found || found.status === "Unknown") return { tone: "idle", word: "unknown", message: found?.message };
    return found.status === "True" ? { tone: "good", word: "reachable" } : { tone: "bad", word: found.reason || "not reachable", message: found.message };
  };
  const ofWebhook = (server: string, made: Made | undefined): State => {
    const reached = condition(data.endpoints.find((item) => `${item.metadata.namespace}/${item.metadata.name}` === server), "Reachable");
    const message = made ? `${number(made.total)} calls, ${number(made.failed)} without an answer` : undefined;
    if (reached.tone === "bad") return reached;
    if (made?.failing) return { tone: "bad", word: "fails", message };
    if (reached.tone === "good") return { ...reached, message };
    return made && made.total > made.failed ? { tone: "good", word: "answers", message } : { tone: made?.failed ? "warn" : "idle", word: made?.failed ? "has failed" : "not called yet", message };
  };
  const row = (key: string, what: any, address: string, state: State) => <tr key={key}><td data-label="What">{what}</td><td data-label="Server">{address}</td><td data-label="State"><Pill state={state.tone}>{state.word}</Pill> <span class="muted">{state.message}</span></td></tr>;
  const link = (object: KubeObject, text: string) => { const type = typeOfKind(object.apiVersion, object.kind); return type ? <a href={hrefOfObject(type, object.metadata)}>{text}</a> : text; };
  const typed = (item: KubeObject, apiVersion: string, kind: string): KubeObject => ({ ...item, apiVersion, kind }); // items of a list have neither
  return <section><h2>Remote API servers and webhooks</h2><table class="plain stack remote"><thead><tr><th>What</th><th>Server</th><th>State</th></tr></thead><tbody>
    {data.services.map((item) => row(item.metadata.uid, <>API {link(typed(item, "apiregistration.k8s.io/v1", "APIService"), `${item.spec.group}/${item.spec.version}`)}</>, service(item.spec.service), condition(item, "Available")))}
    {data.webhooks.map(({ item, hook }) => row(item.metadata.uid + hook.name, <>webhook {hook.name} <span class="muted">{hook.failurePolicy === "Ignore" ? "failures are ignored" : "required"}</span></>, serverOf(hook), ofWebhook(serverOf(hook), metrics.calls.get(hook.name))))}
    {data.conversions.map(([server, crds]) => row(`conversion ${server}`, <>conversion of {crds.length > 1 ? <span title={crds.slice(0, MAX_CONVERTERS).join("\n")}>{number(crds.length)} types</span> : link(typed({ metadata: { name: crds[0] } } as KubeObject, "apiextensions.k8s.io/v1", "CustomResourceDefinition"), crds[0])} <span class="muted">required</span></>,
      server, ofWebhook(server, sum(crds.map((crd) => metrics.conversions.get(crd))))))}
    {data.endpoints.map((item) => row(item.metadata.uid, <>ServiceEndpoint {link(item, `${item.metadata.namespace}/${item.metadata.name}`)}</>, targets(item), condition(item, "Reachable")))}
  </tbody></table></section>;
}

const targets = (item: KubeObject) => [item.spec?.targets, item.spec?.addresses, item.spec?.endpoints].find(Array.isArray)?.map((each: any) => (typeof each === "string" ? each : each?.address ?? each?.url ?? JSON.stringify(each))).join(", ") ?? "";

const MAX_EVENTS = 2000;

/** The latest events: warnings, or all. They are listed by name, so that the latest are known when all are read. */
function Events() {
  const { query } = useSignal(route);
  const namespace = useSignal(scope);
  const everything = query.get("events") === "all";
  const { data, error } = usePolled(async (signal) => {
    const found: KubeObject[] = [];
    let next: string | undefined;
    do {
      const page = await list(`/api/v1/${namespace ? `namespaces/${encodeURIComponent(namespace)}/` : ""}events`, { query: { fieldSelector: everything ? undefined : "type=Warning", limit: 500, continue: next }, signal });
      found.push(...page.items);
      next = page.metadata.continue;
    } while (next && found.length < MAX_EVENTS);
    return found;
  }, [everything, namespace]);
  const events = latestFirst(data ?? []).slice(0, 20);
  const all = findType("core/v1/events");
  return <section><div class="toolbar"><h2>Warnings and events</h2>
    <label><input type="checkbox" checked={everything} onChange={(event) => setQuery({ events: event.currentTarget.checked ? "all" : undefined })} /> not only warnings</label>
    <span class="grow" />{all && <a href={hrefOfType(all)}>All events as a table</a>}</div>
    {!data ? error instanceof ApiError && error.code === 403 ? <p class="muted">You may not list events{namespace ? ` in ${namespace}` : ""}.</p> : error ? <Failure error={error} doing="list events" /> : <Loading /> : events.length > 0 ? <EventList events={events} withObject /> : <p class="muted">{everything ? "No events." : "No warnings."} The server keeps events for one hour, unless it is configured otherwise.</p>}</section>;
}
