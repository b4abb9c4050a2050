// Objects as text, in JSON and YAML, with all digits of their integers: above 2^53 a number of
// JavaScript has not all of them, and such an integer is a BigInt here.
import { parse, stringify } from "yaml";

const ofYaml = (_: unknown, value: unknown) => (typeof value === "bigint" && Number.isSafeInteger(Number(value)) ? Number(value) : value);
const ofJson = (_: unknown, value: unknown, context?: { source?: string }) =>
  (typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? "") ? BigInt(context!.source!) : value);
/** Whether this browser tells a reviver the digits; those from before 2025 do not all. */
const tellsSource = JSON.parse("1", (_: unknown, __: unknown, context?: { source?: string }) => context?.source) === "1";

/** The other programs read YAML 1.1, for which `on`, `no` and `y` are booleans: such texts are quoted. */
export const toYaml = (value: unknown): string => stringify(value, { lineWidth: 0, compat: "yaml-1.1" });

export const fromYaml = (text: string): any => parse(text, ofYaml, { intAsBigInt: true });

export function fromJson(text: string): any {
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  return tellsSource ? JSON.parse(text, ofJson) : parse(text, ofYaml, { intAsBigInt: true, uniqueKeys: false }); // JSON is YAML
}

export function toJson(value: unknown): string {
  if (typeof value === "bigint") return String(value);
  if (Array.isArray(value)) return `[${value.map(toJson).join()}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  return `{${Object.entries(value).filter(([, field]) => field !== undefined).map(([name, field]) => `${JSON.stringify(name)}:${toJson(field)}`).join()}}`;
}
