// The OpenAPI v3 schema of a type: lookup, completion, checks.
import { get } from "./api";
import { apiVersion, type ApiType } from "./types";

export interface Schema {
  type?: string; format?: string; description?: string; properties?: Record<string, Schema>; items?: Schema; additionalProperties?: Schema | boolean;
  required?: string[]; enum?: unknown[]; default?: unknown; $ref?: string; allOf?: Schema[]; pattern?: string; minimum?: number; maximum?: number;
  minLength?: number; maxLength?: number; minItems?: number; maxItems?: number;
  [extension: `x-${string}`]: any;
}

const documents = new Map<string, Promise<Record<string, Schema>>>();

/** The schemas of a group version. The address holds their hash, so that a change is loaded. */
async function schemasOf(type: ApiType): Promise<Record<string, Schema>> {
  const index = await get<{ paths: Record<string, { serverRelativeURL: string }> }>("/openapi/v3");
  const path = type.group ? `apis/${type.group}/${type.version}` : `api/${type.version}`;
  const url = index.paths[path]?.serverRelativeURL;
  if (!url) throw new Error(`the server has no OpenAPI document of ${apiVersion(type)}`);
  let document = documents.get(url);
  if (!document) {
    document = get<any>(url).then((answer) => answer.components?.schemas ?? {});
    documents.set(url, document);
    document.catch(() => documents.delete(url));
  }
  return document;
}

/** The schema of a type. References are resolved on the way down, by resolve. */
export async function schemaOf(type: ApiType): Promise<Schema> {
  const schemas = await schemasOf(type);
  for (const schema of Object.values(schemas)) {
    const kinds: any[] = schema["x-kubernetes-group-version-kind"] ?? [];
    if (kinds.some((k) => k.group === type.group && k.version === type.version && k.kind === type.kind)) return linked(schema, schemas);
  }
  throw new Error(`the OpenAPI document of ${apiVersion(type)} has no schema of ${type.kind}`);
}

const SCHEMAS = Symbol("schemas");
function linked(schema: Schema, schemas: Record<string, Schema>): Schema {
  return Object.assign(Object.create({ [SCHEMAS]: schemas }), schema);
}

/** Follows references, and keeps the description of the place that refers. */
export function resolve(schema: Schema, root: Schema): Schema {
  const schemas: Record<string, Schema> = (root as any)[SCHEMAS] ?? {};
  for (let depth = 0; depth < 10; depth++) {
    const link = schema.$ref ?? (schema.allOf?.length === 1 ? schema.allOf[0].$ref : undefined);
    const target = link && schemas[link.replace("#/components/schemas/", "")];
    if (!target) break;
    schema = { ...target, description: schema.description ?? target.description, default: schema.default };
  }
  return linked(schema, schemas);
}

/** The schema below a path of keys; "[]" is an item of a list. */
export function at(schema: Schema | undefined, path: string[]): Schema | undefined {
  let current = schema && resolve(schema, schema);
  for (const part of path) {
    if (!current) return undefined;
    const next: Schema | undefined = part === "[]" ? current.items : current.properties?.[part] ?? (typeof current.additionalProperties === "object" ? current.additionalProperties : undefined);
    current = next && resolve(next, current);
  }
  return current;
}

/** The properties of a schema, the required ones first. */
export function childrenOf(schema: Schema | undefined): [string, Schema][] {
  if (!schema) return [];
  const required = new Set(schema.required ?? []);
  return Object.entries(schema.properties ?? {}).map(([name, child]): [string, Schema] => [name, resolve(child, schema)])
    .sort(([a], [b]) => Number(required.has(b)) - Number(required.has(a)) || a.localeCompare(b));
}

/** Schemas may refer to themselves: all fields of a schema are looked at to this depth. */
export const DEEP = 12;

/** The schema of an item of a list or a map. */
export function itemOf(schema: Schema): Schema | undefined {
  const item = schema.items ?? schema.additionalProperties;
  return typeof item === "object" ? resolve(item, schema) : undefined;
}

/** The schema with the description of the field that has it, if the field has one. */
export function described(schema: Schema, description: string | undefined): Schema {
  return Object.assign(Object.create(Object.getPrototypeOf(schema)), schema, { description: description ?? schema.description });
}

/** What `kubectl explain` prints as the type. */
export function typeName(schema: Schema, depth = 0): string {
  const item = itemOf(schema);
  if (schema.type === "array" || item) return `${schema.type === "array" ? "[]" : "map[string]"}${item && depth < DEEP ? typeName(item, depth + 1) : "any"}`;
  if (schema["x-kubernetes-int-or-string"]) return "int or string";
  return schema.type ?? "any";
}

export interface Problem { path: (string | number)[]; message: string }

/** Checks a value: unknown fields, types, enumerations, required fields. The server checks the rest. */
export function check(schema: Schema, value: unknown, path: (string | number)[] = []): Problem[] {
  const self = resolve(schema, schema);
  if (value === null || value === undefined || self["x-kubernetes-int-or-string"]) return [];
  const actual = Array.isArray(value) ? "array" : typeof value === "number" ? (Number.isInteger(value) ? "integer" : "number") : typeof value;
  if (self.type && self.type !== actual && !(self.type === "number" && actual === "integer")) return [{ path, message: `this is ${article(actual)}, the schema asks for ${article(self.type)}` }];
  if (self.enum && !self.enum.includes(value as any)) return [{ path, message: `not one of: ${self.enum.join(", ")}` }];
  if (actual === "array") return self.items ? (value as unknown[]).flatMap((item, i) => check(resolve(self.items!, self), item, [...path, i])) : [];
  if (actual !== "object") return [];
  const found: Problem[] = [];
  const fields = value as Record<string, unknown>;
  for (const name of self.required ?? []) if (!(name in fields)) found.push({ path, message: `${name} is required` });
  for (const [name, field] of Object.entries(fields)) {
    const child = self.properties?.[name] ?? (typeof self.additionalProperties === "object" ? self.additionalProperties : undefined);
    if (child) found.push(...check(resolve(child, self), field, [...path, name]));
    else if (self.properties && !self.additionalProperties && !self["x-kubernetes-preserve-unknown-fields"] && !self["x-kubernetes-embedded-resource"] && path[0] !== "metadata") found.push({ path: [...path, name], message: `unknown field ${name}` });
  }
  return found;
}

const article = (type: string) => (/^[aio]/.test(type) ? "an " : "a ") + type;

/** A new object with the fields that the schema requires. */
export function skeleton(type: ApiType, schema: Schema | undefined, namespace: string): any {
  const object: any = { apiVersion: apiVersion(type), kind: type.kind, metadata: { name: "", ...(type.namespaced ? { namespace: namespace || "default" } : {}) } };
  for (const [name, child] of childrenOf(schema)) {
    if (["apiVersion", "kind", "metadata", "status"].includes(name)) continue;
    if (name === "spec" || schema?.required?.includes(name)) object[name] = example(child, 0);
  }
  return object;
}

function example(schema: Schema, depth: number): any {
  if (schema.default !== undefined) return schema.default;
  if (schema.enum?.length) return schema.enum[0];
  switch (schema.type) {
    case "object": {
      const value: any = {};
      if (depth < 8) for (const name of schema.required ?? []) if (schema.properties?.[name]) value[name] = example(resolve(schema.properties[name], schema), depth + 1);
      return value;
    }
    case "array": return [];
    case "integer": case "number": return schema.minimum ?? 0;
    case "boolean": return false;
    default: return schema["x-kubernetes-int-or-string"] ? 0 : "";
  }
}
