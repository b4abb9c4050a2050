// The server at a glance.
import { useEffect, useState } from "preact/hooks";
import { ApiError, get, list, pause, send, type KubeObject } from "./api";
import { Chart } from "./chart";
import { bytes, number, span } from "./format";
import { compare, parse, type Point, type Sample } from "./metrics";
import { EventList, timeOf } from "./object";
import { Age, Failure, Loading, Pill } from "./parts";
import { useLoad, useSignal } from "./signal";
import { typeKey, typeOfKind, hrefOfObject, hrefOfType, types, findType } from "./types";

const EVERY = 5000, KEEP = 120;

export function Overview() {
  return <>
    <div class="title"><h1>Overview</h1></div>
    <div class="cards"><Server /><Health /><Installed /></div>
    <Charts />
    <Remote />
    <Warnings />
  </>;
}

/** Loads again from time to time. */
function usePolled<T>(load: (signal: AbortSignal) => Promise<T>) {
  const result = useLoad(load, []);
  useEffect(() => { const timer = setInterval(result.reload, EVERY); return () => clearInterval(timer); }, []);
  return result;
}

const optional = <T,>(promise: Promise<T>): Promise<T | undefined> => promise.catch((error) => { if (error instanceof ApiError && (error.code === 404 || error.code === 403)) return undefined; throw error; });

function Server() {
  const { data, error } = usePolled(async (signal) => ({
    version: await get<any>("/version", { signal }), status: await optional(get<any>("/kube-hyper-mini/status", { signal })),
  }));
  if (error && !data) return <section class="card"><h2>Server</h2><Failure error={error} doing="ask the server" /></section>;
  const status = data?.status;
  return <section class="card"><h2>Server</h2>{!data ? <Loading /> : <dl>
    <dt>Kubernetes</dt><dd>{data.version.gitVersion}</dd>
    {status && <>
      <dt>kube-hyper-mini</dt><dd>{status.versions.server}</dd><dt>etcd</dt><dd>{status.versions.etcd}</dd>
      <dt>Running for</dt><dd><Age time={status.started} /></dd>
      <dt>Database</dt><dd><Meter used={status.database.sizeBytes} of={status.database.quotaBytes} />{status.database.readOnly && <p class="bad">{status.database.readOnly}</p>}</dd>
      <dt>Last backup</dt><dd>{status.backups.last ? <><Age time={status.backups.last} /> ago</> : "none since the start"}{status.backups.next && <span class="muted">, next <Age time={status.backups.next} /></span>}{status.backups.error && <p class="bad">{status.backups.error}</p>}</dd>
      {status.archive?.lagSeconds !== undefined && <><dt>Archive</dt><dd>{span(status.archive.lagSeconds)} behind</dd></>}
      <dt>Certificates</dt><dd>{firstEnd(status.certificates)}</dd></>}
  </dl>}</section>;
}

function firstEnd(certificates: Record<string, string> = {}) {
  const [name, end] = Object.entries(certificates).sort(([, a], [, b]) => a.localeCompare(b))[0] ?? [];
  return end ? <>{name} ends <Age time={end} /></> : "";
}

function Meter({ used, of }: { used: number; of?: number }) {
  return <>{bytes(used)}{of ? <> of {bytes(of)} <meter min={0} max={of} high={of * 0.8} value={used} /></> : null}</>;
}

function Health() {
  const { data } = usePolled(async (signal) => {
    const text = await send("/readyz?verbose", { signal, accept: "text/plain" }).then((answer) => answer.text(), (error: Error) => error.message);
    return text.split("\n").map((line) => /^\[([+-])\](\S+) ?(.*)$/.exec(line)).filter((match) => !!match).map(([, sign, name, rest]) => ({ good: sign === "+", name, rest }));
  });
  const bad = data?.filter((check) => !check.good) ?? [];
  return <section class="card"><h2>Ready</h2>{!data ? <Loading /> : <>
    <p>{bad.length === 0 ? <Pill state="good">ready</Pill> : <Pill state="bad">not ready</Pill>} <span class="muted">{data.length} checks</span></p>
    {bad.length > 0 && <ul>{bad.map((check) => <li key={check.name}>{check.name} {check.rest}</li>)}</ul>}
    {bad.length === 0 && <details><summary>Checks</summary><ul class="plain-list">{data.map((check) => <li key={check.name}>{check.name}</li>)}</ul></details>}</>}</section>;
}

function Installed() {
  const known = useSignal(types);
  const { data } = usePolled(async (signal) => optional(get<any>("/kube-hyper-mini/status", { signal })));
  const custom = data?.customTypes;
  return <section class="card"><h2>Types</h2><dl>
    <dt>Served</dt><dd><a href="#/types">{known ? number(known.length) : "…"}</a></dd>
    {custom && <><dt>From CRDs</dt><dd><a href="#/objects/apiextensions.k8s.io/v1/customresourcedefinitions">{number(custom.installed)}</a></dd>
      <dt>With objects</dt><dd><a href="#/types?show=populated">{number(custom.populated)}</a> <span class="muted">of these</span></dd></>}
  </dl></section>;
}

function Charts() {
  const [points, setPoints] = useState<Point[]>([]);
  const [denied, setDenied] = useState<Error>();
  useEffect(() => {
    const abort = new AbortController();
    (async () => {
      let before: Sample | undefined;
      while (!abort.signal.aborted) {
        try {
          const sample = parse(await (await send("/metrics", { signal: abort.signal, accept: "text/plain" })).text(), Date.now() / 1000);
          const point = before && compare(before, sample);
          before = sample;
          if (point) setPoints((points) => [...points, point].slice(-KEEP));
          setDenied(undefined);
        } catch (error) {
          if (abort.signal.aborted) return;
          before = undefined;
          setDenied(error as Error);
        }
        await pause(EVERY, abort.signal);
      }
    })();
    return () => abort.abort();
  }, []);
  if (denied && points.length === 0) return <Failure error={denied} doing="read metrics" />;
  return <div class="cards charts">
    <Chart title="Requests per second" points={points} value={(point) => point.requests} />
    <Chart title="99 % answered within, ms" points={points} value={(point) => point.latency} />
    <Chart title="Failures per second" points={points} value={(point) => point.errors} tone="bad" />
  </div>;
}

/** Remote API servers and webhooks, with what is known of their health. */
function Remote() {
  const { data, error } = usePolled(async (signal) => {
    const listOf = (path: string) => optional(list(path, { signal }));
    const endpointType = types.value?.find((type) => type.kind === "ServiceEndpoint");
    const [services, mutating, validating, endpoints] = await Promise.all([
      listOf("/apis/apiregistration.k8s.io/v1/apiservices"), listOf("/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"),
      listOf("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"), endpointType ? listOf(`/apis/${endpointType.group}/${endpointType.version}/${endpointType.resource}`) : undefined]);
    return {
      services: services?.items.filter((item) => item.spec.service) ?? [], endpoints: endpoints?.items ?? [],
      webhooks: [...(mutating?.items ?? []), ...(validating?.items ?? [])].flatMap((item) => (item.webhooks ?? []).map((hook: any) => ({ item, hook }))) as { item: KubeObject; hook: any }[],
    };
  });
  if (error && !data) return <Failure error={error} doing="list remote servers" />;
  if (!data || data.services.length + data.webhooks.length + data.endpoints.length === 0) return null;
  const service = (reference: any) => (reference ? `${reference.namespace}/${reference.name}` : "");
  const condition = (object: KubeObject, ...names: string[]) => object.status?.conditions?.find((c: any) => names.includes(c.type));
  const state = (found: any) => (!found ? <Pill state="idle">unknown</Pill> : found.status === "True" ? <Pill state="good">reachable</Pill> : <Pill state="bad">{found.reason || "not reachable"}</Pill>);
  const endpointOf = (reference: any) => reference && data.endpoints.find((item) => item.metadata.namespace === reference.namespace && item.metadata.name === reference.name);
  const link = (object: KubeObject) => { const type = typeOfKind(object.apiVersion, object.kind); return type ? hrefOfObject(type, object.metadata) : undefined; };
  return <section><h2>Remote servers</h2><table class="plain"><thead><tr><th>What</th><th>Server</th><th>State</th></tr></thead><tbody>
    {data.services.map((item) => { const found = condition(item, "Available"); return <tr key={item.metadata.uid}><td>API <a href={hrefOfApiService(item)}>{item.spec.version}.{item.spec.group}</a></td><td>{service(item.spec.service)}</td><td>{state(found)} <span class="muted">{found?.status !== "True" && found?.message}</span></td></tr>; })}
    {data.webhooks.map(({ item, hook }) => { const endpoint = endpointOf(hook.clientConfig.service); return <tr key={item.metadata.uid + hook.name}><td>webhook {hook.name} <span class="muted">{hook.failurePolicy}</span></td><td>{service(hook.clientConfig.service) || hook.clientConfig.url}</td><td>{state(endpoint && condition(endpoint, "Ready", "Reachable", "Available"))}</td></tr>; })}
    {data.endpoints.map((item) => <tr key={item.metadata.uid}><td>ServiceEndpoint <a href={link(item)}>{item.metadata.namespace}/{item.metadata.name}</a></td><td>{JSON.stringify(item.spec?.addresses ?? item.spec?.endpoints ?? item.spec?.url ?? "").replace(/["[\]]/g, "")}</td><td>{state(condition(item, "Ready", "Reachable", "Available"))}</td></tr>)}
  </tbody></table></section>;
}

const hrefOfApiService = (item: KubeObject) => { const type = findType("apiregistration.k8s.io/v1/apiservices"); return type ? hrefOfObject(type, item.metadata) : undefined; };

function Warnings() {
  const { data } = usePolled(async (signal) => optional(list("/api/v1/events", { query: { fieldSelector: "type=Warning", limit: 500 }, signal })));
  const events = [...(data?.items ?? [])].sort((a, b) => (timeOf(b) > timeOf(a) ? 1 : -1)).slice(0, 20);
  const all = findType("core/v1/events");
  return <section><h2>Warnings</h2>{events.length > 0 ? <EventList events={events} withObject /> : <p class="muted">No warnings in the last hour.</p>}
    {all && <p><a href={hrefOfType(all)} key={typeKey(all)}>All events</a></p>}</section>;
}
