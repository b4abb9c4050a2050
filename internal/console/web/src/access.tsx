// What the user may do, and who may do something.
import { useState } from "preact/hooks";
import { list, type KubeObject } from "./api";
import { Failure, Loading, Pill, useDebounced } from "./parts";
import { route, setQuery } from "./router";
import { matches, review, rulesIn, scope, type Rule } from "./scope";
import { useLoad, useSignal } from "./signal";
import { findType, typeKey, types } from "./types";

interface Subject { kind: string; name: string; namespace?: string }
/** Who may do something, by which role and binding; `names` are the only objects that it is for. */
interface Grant { subject: Subject; role: string; binding: KubeObject; names: string[] }

const verbs = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

export function Access() {
  const { query } = useSignal(route);
  const namespace = query.get("ns") ?? (scope.value || "default");
  const [text, setText] = useDebounced(namespace, (ns) => setQuery({ ns }));
  const mine = useLoad(async () => {
    const [who, rules] = await Promise.all([
      review("SelfSubjectReview", undefined, "/apis/authentication.k8s.io/v1/selfsubjectreviews", "authentication.k8s.io/v1"),
      rulesIn(namespace),
    ]);
    return { user: who.status.userInfo, ...rules, namespace };
  }, [namespace]);
  return <>
    <div class="title"><h1>Access</h1></div>
    <section><h2>You</h2>
      {mine.error ? <Failure error={mine.error} doing="ask what you may do" /> : !mine.data ? <Loading /> : <>
        <dl><dt>User</dt><dd>{mine.data.user.username}</dd><dt>Groups</dt><dd>{(mine.data.user.groups ?? []).join(", ")}</dd></dl>
        <div class="toolbar"><label>In namespace <input value={text} aria-label="Namespace of the rules" onInput={(event) => setText(event.currentTarget.value)} /></label>
          {mine.data.incomplete && <span class="muted">The authorizer does not list all rules.</span>}</div>
        {mine.data.namespace !== namespace ? <Loading /> : <table class="plain stack"><thead><tr><th>Verbs</th><th>Resources</th><th>API groups</th><th>Names</th></tr></thead>
          <tbody>{mine.data.rules.map((rule, i) => <tr key={i}><td data-label="Verbs">{all(rule.verbs)}</td><td data-label="Resources">{all(rule.resources)}</td><td data-label="API groups">{all(rule.apiGroups?.map((group) => group || "core"))}</td><td data-label="Names">{all(rule.resourceNames, "any")}</td></tr>)}</tbody></table>}</>}
    </section>
    <WhoCan />
  </>;
}

const all = (values: string[] | undefined, none = "") => (!values?.length ? none : values.map((value) => (value === "*" ? "all" : value)).join(", "));

function WhoCan() {
  const { query } = useSignal(route);
  const known = useSignal(types)!;
  const verb = query.get("verb") ?? "get", key = query.get("type") ?? "core/v1/secrets", namespace = query.get("ns") ?? (scope.value || "default");
  const [typed, setTyped] = useState<string>();
  const type = findType(key);
  const question = [verb, key, namespace].join(" ");
  const found = useLoad(async () => {
    if (!type) return { question, grants: [] };
    const listOf = (resource: string, ns?: string) => list(`/apis/rbac.authorization.k8s.io/v1${ns ? `/namespaces/${encodeURIComponent(ns)}` : ""}/${resource}`);
    const scoped = type.namespaced && namespace;
    const [clusterRoles, clusterBindings, roles, bindings] = await Promise.all([
      listOf("clusterroles"), listOf("clusterrolebindings"), scoped ? listOf("roles", namespace) : undefined, scoped ? listOf("rolebindings", namespace) : undefined]);
    const rulesOf = new Map<string, Rule[]>();
    for (const role of clusterRoles.items) rulesOf.set(`ClusterRole/${role.metadata.name}`, role.rules ?? []);
    for (const role of roles?.items ?? []) rulesOf.set(`Role/${role.metadata.name}`, role.rules ?? []);
    const grants = [...clusterBindings.items, ...(bindings?.items ?? [])].flatMap((binding): Grant[] => {
      const role = `${binding.roleRef.kind}/${binding.roleRef.name}`;
      const rules = (rulesOf.get(role) ?? []).filter((rule) => matches(rule, verb, type.group, type.resource));
      return rules.length === 0 ? [] : (binding.subjects ?? []).map((subject: Subject) => ({ subject, role, binding, names: rules.every((rule) => rule.resourceNames?.length) ? rules.flatMap((rule) => rule.resourceNames!) : [] }));
    });
    return { question, grants };
  }, [question]);
  return <section><h2>Who may</h2>
    <div class="toolbar">
      <select aria-label="Verb" value={verb} onChange={(event) => setQuery({ verb: event.currentTarget.value })}>{verbs.map((name) => <option key={name} selected={name === verb}>{name}</option>)}</select>
      <input list="types" aria-label="Type" placeholder="group/version/resource" value={typed ?? key} size={34} onFocus={(event) => event.currentTarget.select()} onBlur={() => setTyped(undefined)}
        onInput={(event) => { setTyped(event.currentTarget.value); if (findType(event.currentTarget.value)) setQuery({ type: event.currentTarget.value }); }} />
      <datalist id="types">{known.map((item) => <option key={typeKey(item)} value={typeKey(item)}>{item.kind}</option>)}</datalist>
      {type?.namespaced && <span class="muted">in namespace {namespace}</span>}
    </div>
    {found.error ? <Failure error={found.error} doing="read roles and bindings" /> : found.data?.question !== question ? <Loading /> :
      <table class="plain stack"><thead><tr><th>Subject</th><th>By role</th><th>By binding</th></tr></thead>
        <tbody>{found.data.grants.map((item, i) => <tr key={i}><td data-label="Subject"><Pill state="idle">{item.subject.kind}</Pill> {item.subject.namespace ? `${item.subject.namespace}/` : ""}{item.subject.name}</td>
          <td data-label="By role"><a href={roleHref(item.role, item.binding.metadata.namespace)}>{item.role.split("/")[1]}</a>{item.names.length > 0 && <span class="muted"> only {item.names.join(", ")}</span>}</td>
          <td data-label="By binding">{item.binding.metadata.name}{item.binding.metadata.namespace ? "" : <span class="muted"> in all namespaces</span>}</td></tr>)}
          {found.data.grants.length === 0 && <tr><td colSpan={3}>No role binding allows it.</td></tr>}</tbody></table>}
    <p class="muted">From RBAC's roles and bindings. Members of system:masters may do everything, and webhooks may allow more.</p>
  </section>;
}

const roleHref = (role: string, namespace?: string) => {
  const [kind, name] = role.split("/");
  return `#/object/rbac.authorization.k8s.io/v1/${kind === "Role" ? "roles" : "clusterroles"}/${kind === "Role" ? encodeURIComponent(namespace ?? "") : "-"}/${encodeURIComponent(name)}`;
};
