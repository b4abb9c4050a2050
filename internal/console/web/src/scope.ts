// The namespace that pages show, and what the user may do.
import { ApiError, METADATA_LIST, epoch, list, plane, send } from "./api";
import { useEffect, useState } from "preact/hooks";
import { Signal } from "./signal";
import type { ApiType } from "./types";

/** Each control plane has namespaces of its own. */
const KEY = plane ? `namespace of ${plane}` : "namespace";
const stored = () => { try { return localStorage.getItem(KEY) ?? undefined; } catch { return undefined; } };
const ofContext = plane ? "" : document.querySelector<HTMLMetaElement>("meta[name=kube-namespace]")?.content ?? "";

/** The namespace that pages begin with; empty for all, undefined until it is known. */
export const scope = new Signal<string | undefined>(stored() ?? (ofContext || undefined));
/** The names of all namespaces; undefined if they may not be listed. */
export const namespaces = new Signal<string[] | undefined>([]);

export function choose(namespace: string) {
  try { localStorage.setItem(KEY, namespace); } catch { /* it is chosen again after a reload */ }
  scope.value = namespace;
}

/** Lists the namespaces. Who may not do this begins with that of the context, or with "default" as kubectl does. */
export async function loadNamespaces(signal?: AbortSignal): Promise<void> {
  try {
    const found = await list("/api/v1/namespaces", { accept: METADATA_LIST, query: { limit: 2000 }, signal });
    namespaces.value = found.items.map((item) => item.metadata.name);
  } catch (error) {
    if (signal?.aborted) return;
    if (error instanceof ApiError && error.code === 403) {
      namespaces.value = undefined;
      scope.value ??= "default";
    }
  }
  scope.value ??= "";
}

/** A rule of a review or of a role. */
export interface Rule { verbs: string[]; apiGroups?: string[]; resources?: string[]; resourceNames?: string[]; nonResourceURLs?: string[] }

export const review = async (kind: string, spec: any, path: string, group: string) =>
  (await send(path, { method: "POST", body: JSON.stringify({ apiVersion: group, kind, spec }) })).json();

/** The user's rules in a namespace, in an order that does not change: the server has none. */
export async function rulesIn(namespace: string): Promise<{ rules: Rule[]; incomplete: boolean }> {
  const { status } = await review("SelfSubjectRulesReview", { namespace }, "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", "authorization.k8s.io/v1");
  const key = (rule: Rule) => JSON.stringify([rule.verbs, rule.apiGroups, rule.resources, rule.resourceNames]);
  const sorted = (status.resourceRules ?? []).map((rule: Rule) => ({ rule, key: key(rule) })).sort((a: { key: string }, b: { key: string }) => (a.key < b.key ? -1 : 1));
  return { rules: sorted.map(({ rule }: { rule: Rule }) => rule), incomplete: status.incomplete };
}

const includes = (values: string[] | undefined, wanted: string) => !!values && (values.includes("*") || values.includes(wanted));

/** Whether a rule allows a verb on a resource, as RBAC's authorizer decides. */
export function matches(rule: Rule, verb: string, group: string, resource: string): boolean {
  return includes(rule.verbs, verb) && includes(rule.apiGroups, group) && includes(rule.resources, resource);
}

/** Answers are asked for again after a minute: rights change. */
const FRESH = 60_000;
const answers = new Map<string, { asked: number; answer: Promise<boolean> }>();
epoch.subscribe(() => answers.clear());

function may(verb: string, type: ApiType, namespace?: string, name?: string): Promise<boolean> {
  const attributes = { verb, group: type.group, version: type.version, resource: type.resource, namespace: type.namespaced ? namespace : undefined, name };
  const key = JSON.stringify(attributes), known = answers.get(key);
  if (known && Date.now() - known.asked < FRESH) return known.answer;
  const answer = review("SelfSubjectAccessReview", { resourceAttributes: attributes }, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "authorization.k8s.io/v1")
    .then((found) => found.status?.allowed !== false, () => true); // who cannot ask is answered by the request itself
  answers.set(key, { asked: Date.now(), answer });
  return answer;
}

/** Whether the type has the verb and the user may use it; false until that is known. */
export function useMay(verb: string, type: ApiType | undefined, namespace?: string, name?: string): boolean {
  const [allowed, set] = useState(false);
  useEffect(() => {
    let left = false;
    if (!type?.verbs.includes(verb)) { set(false); return; }
    void may(verb, type, namespace, name).then((answer) => { if (!left) set(answer); });
    return () => { left = true; };
  }, [verb, type, namespace, name]);
  return allowed;
}
