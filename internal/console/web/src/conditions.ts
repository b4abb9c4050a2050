// What conditions say about an object.
import type { KubeObject } from "./api";

export type Tone = "good" | "bad" | "warn" | "idle";
export interface Condition { type: string; status: string; reason?: string; message?: string; lastTransitionTime?: string }

/** Types of conditions whose truth is bad. */
const negative = /(failed|failure|error|degraded|pressure|unavailable|stalled|dangling|nonstructuralschema|deleting|terminating|conflict|exceeded|invalid|denied|paused|suspended)/i;
/** Types of conditions that are true for a while only. */
const passing = /^(issuing|renewing|reconciling|progressing|updating)$/i;
/** Reasons of what is not ready yet and has not failed. */
const underway = /^(creat|wait|progress|pending|reconciling|provision|delet|updat|install|start|initial)/i;
const isUnderway = (reason = "") => underway.test(reason) && !/fail|err/i.test(reason);

/** What a status means for a type of condition. A printer column with the name of the type is read the same way. */
export function toneOf({ type, status, reason }: Condition): Tone {
  if (status !== "True" && status !== "False") return "warn";
  if (passing.test(type)) return status === "True" ? "warn" : "idle";
  if (negative.test(type) ? status === "False" : status === "True") return "good";
  return isUnderway(reason) ? "warn" : "bad";
}

const isCondition = (value: any): value is Condition => typeof value?.type === "string" && typeof value?.status === "string";
const conditionsIn = (value: any): Condition[] => (Array.isArray(value?.conditions) ? value.conditions.filter(isCondition) : []);

/** The conditions of a status, and those of its parts: a Gateway has some for each listener, a route for each parent. */
export function conditionsOf(status: any): { of: string; conditions: Condition[] }[] {
  const groups = [{ of: "", conditions: conditionsIn(status) }];
  for (const [field, parts] of Object.entries(status ?? {})) {
    if (!Array.isArray(parts)) continue;
    parts.forEach((part, i) => {
      const name = [part?.name, part?.parentRef?.name, part?.ancestorRef?.name].find((text) => typeof text === "string") ?? i + 1;
      groups.push({ of: `${field} ${name}`, conditions: conditionsIn(part) });
    });
  }
  return groups.filter((group) => group.conditions.length > 0);
}

/** Whether an object is well, a word for it, and the message of the condition that says so. */
export interface State { tone: Tone; word: string; message?: string }

/** The state of an object by its conditions. */
export function stateOf(object?: KubeObject): State {
  const conditions = conditionsIn(object?.status);
  if (object?.metadata.deletionTimestamp) return { tone: "warn", word: "deleting" };
  const synced = conditions.find((each) => each.type === "Synced");
  const main = ["Ready", "Available", "Healthy", "Programmed", "Established", "Accepted"].map((type) => conditions.find((each) => each.type === type)).find((each) => !!each);
  const failed = [synced, main].find((each) => each && each.status !== "True");
  if (failed) return { tone: failed.status === "False" && !isUnderway(failed.reason) ? "bad" : "warn", message: failed.message, word: failed.reason || (failed === synced ? "not synced" : `not ${failed.type.toLowerCase()}`) };
  const good = main ?? synced;
  return good ? { tone: "good", word: good.type.toLowerCase() } : { tone: "idle", word: "" };
}
