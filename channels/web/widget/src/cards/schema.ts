/** What can be filled in, read from a JSON Schema: names, kinds and bounds. Pure. What does not fit is JSON. */

import { isExact } from "../wire/json.js";
import { inWords } from "../words/spoken.js";

export type Json = Readonly<Record<string, unknown>>;

export interface Choice {
  readonly label: string;
  readonly value: unknown;
}

export type Kind =
  | { readonly is: "choice"; readonly choices: readonly Choice[] }
  | { readonly is: "several"; readonly choices: readonly Choice[]; readonly least?: number; readonly most?: number }
  | { readonly is: "flag" }
  | { readonly is: "number"; readonly whole: boolean; readonly least?: number; readonly most?: number; readonly over?: number; readonly under?: number; readonly step?: number }
  | { readonly is: "text"; readonly input: string; readonly long: boolean; readonly least?: number; readonly most?: number }
  | { readonly is: "group"; readonly shapes: readonly Shape[] }
  | { readonly is: "lines"; readonly item: "text" | "number" | "whole" }
  | { readonly is: "json" };

/** One thing that can be filled in. */
export interface Shape {
  readonly name: string;
  readonly label: string;
  readonly hint: string;
  readonly required: boolean;
  /** Left empty it is null, not left out. */
  readonly nullable: boolean;
  readonly kind: Kind;
}

const [DEEPEST, MOST_SHAPES, MOST_CHOICES, LONGEST_LABEL, LONGEST_HINT] = [3, 200, 200, 80, 500];
const LONG = 60; // characters beyond which a text, or what its schema allows, has more than one line to be written in
/** The types of inputs by the format of a text. */
const INPUTS: ReadonlyMap<unknown, string> = new Map([["email", "email"], ["date", "date"], ["date-time", "datetime-local"], ["time", "time"], ["uri", "url"]]);

/** What a schema is read with: the whole of it, whether it speaks for itself, and how many shapes there is still room for. */
interface Reading {
  readonly root: Json;
  readonly own: boolean;
  room: number;
}

/**
 * Return what *schema*, of an object, has: first what is required, then what is *given*, then the others.
 *
 * That of a form is its asker's *own*: a choice is what its title says. Of others the value that goes out is shown too.
 * Schemas come from foreign servers: what a `$ref` repeats beyond `MOST_SHAPES`, and all of a schema that cannot be read, is JSON.
 */
export function shapesOf(schema: Json, given: Json, own = false): readonly Shape[] {
  try {
    return shapesIn(schema, given, { root: schema, own, room: MOST_SHAPES }, 0);
  } catch {
    const properties = Object.fromEntries(Object.keys(objectOf(schema["properties"])).map((name) => [name, {}]));
    return shapesIn({ properties, required: schema["required"] }, given, { root: {}, own, room: 0 }, 0);
  }
}

function shapesIn(schema: Json, given: Json, reading: Reading, depth: number): readonly Shape[] {
  const known = objectOf(schema["properties"]);
  const required = new Set(listOf(schema["required"]).filter((name): name is string => typeof name === "string"));
  const names = [...new Set([...[...required].filter((name) => Object.hasOwn(known, name)), ...Object.keys(given), ...Object.keys(known)])];
  reading.room -= names.length;
  const shapes = names.map((name) => shapeOf(name, Object.hasOwn(known, name) ? known[name] : {}, Object.hasOwn(given, name) ? given[name] : undefined, required.has(name), reading, depth));
  const labels = new Map<string, number>();
  for (const { label } of shapes) labels.set(label, (labels.get(label) ?? 0) + 1);
  return shapes.map((shape) => ((labels.get(shape.label) ?? 0) > 1 ? { ...shape, label: `${shape.label} (${shape.name})` } : shape));
}

/** Return those of *given* that *schema* has a default for: the others only stand for something that is to be filled in. */
export function defaultsOf(schema: Json, given: Json): Json {
  const known = objectOf(schema["properties"]);
  return Object.fromEntries(Object.entries(given).filter(([name]) => Object.hasOwn(known, name) && Object.hasOwn(objectOf(known[name]), "default")));
}

function shapeOf(name: string, from: unknown, value: unknown, required: boolean, reading: Reading, depth: number): Shape {
  const { schema, nullable } = plain(from, reading.root);
  const said = [objectOf(from), schema];
  const label = textIn(said, "title").slice(0, LONGEST_LABEL) || inWords(name);
  const kind = kindOf(schema, value, reading, depth);
  const fitting: Kind = value === undefined || fits(kind, value) || (nullable && value === null) ? kind : { is: "json" };
  return { name, label, hint: textIn(said, "description").slice(0, LONGEST_HINT), required, nullable, kind: fitting };
}

/** Follow references, and take null out of what may be null. */
function plain(from: unknown, root: Json, left = 8): { schema: Json; nullable: boolean } {
  const schema = objectOf(from);
  if (left === 0) return { schema: {}, nullable: false };
  const target = typeof schema["$ref"] === "string" ? pointed(schema["$ref"], root) : undefined;
  if (target) return plain(target, root, left - 1);
  const all = listOf(schema["allOf"]);
  if (all.length === 1) return plain(all[0], root, left - 1);
  const types = listOf(schema["type"]);
  if (types.length === 2 && types.includes("null")) return { schema: { ...schema, type: types.find((type) => type !== "null") }, nullable: true };
  const some = listOf(schema["anyOf"] ?? schema["oneOf"]);
  const others = some.filter((each) => objectOf(each)["type"] !== "null");
  if (some.length > others.length && others.length === 1) return { ...plain(others[0], root, left - 1), nullable: true };
  return { schema, nullable: false };
}

function pointed(reference: string, root: Json): unknown {
  if (!reference.startsWith("#/")) return undefined;
  return reference.slice(2).split("/").reduce<unknown>((here, step) => {
    const name = decoded(step).replaceAll("~1", "/").replaceAll("~0", "~");
    const inside = objectOf(here);
    return Object.hasOwn(inside, name) ? inside[name] : undefined;
  }, root);
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a sign that stands for itself
  }
}

function kindOf(schema: Json, value: unknown, reading: Reading, depth: number): Kind {
  const choices = choicesOf(schema, reading.own);
  if (choices) return { is: "choice", choices };
  switch (schema["type"]) {
    case "boolean":
      return { is: "flag" };
    case "integer":
    case "number":
      return numberKind(schema);
    case "string":
      return textKind(schema, value);
    case "object":
      return groupKind(schema, objectOf(value), reading, depth);
    case "array": {
      const item = plain(schema["items"], reading.root).schema;
      const some = choicesOf(item, reading.own);
      if (some) return severalKind(schema, some);
      const type = ({ string: "text", number: "number", integer: "whole" } as const)[item["type"] as "string"];
      return type ? { is: "lines", item: type } : { is: "json" };
    }
    default:
      return { is: "json" };
  }
}

function groupKind(schema: Json, value: Json, reading: Reading, depth: number): Kind {
  const properties = Object.keys(objectOf(schema["properties"])).length;
  if (depth >= DEEPEST || !properties || properties + Object.keys(value).length > reading.room) return { is: "json" };
  return { is: "group", shapes: shapesIn(schema, value, reading, depth + 1) };
}

function severalKind(schema: Json, choices: readonly Choice[]): Kind {
  const [least, most] = [bound(schema["minItems"]), bound(schema["maxItems"])];
  return { is: "several", choices, ...(least !== undefined && { least }), ...(most !== undefined && { most }) };
}

function numberKind(schema: Json): Kind {
  const whole = schema["type"] === "integer";
  const bounds = { least: bound(schema["minimum"]), most: bound(schema["maximum"]), over: bound(schema["exclusiveMinimum"]), under: bound(schema["exclusiveMaximum"]), step: bound(schema["multipleOf"]) };
  return { is: "number", whole, ...Object.fromEntries(Object.entries(bounds).filter(([, each]) => each !== undefined)) };
}

function textKind(schema: Json, value: unknown): Kind {
  const [least, most] = [bound(schema["minLength"]), bound(schema["maxLength"])];
  const format = schema["format"];
  const written = typeof value === "string" ? value : "";
  const long = !INPUTS.has(format) && ((most ?? 0) > LONG || written.length > LONG || /[\r\n]/.test(written));
  return { is: "text", input: INPUTS.get(format) ?? "text", long, ...(least !== undefined && { least }), ...(most !== undefined && { most }) };
}

/** Return the values that are all there are: those of `enum`, or of `oneOf` with their titles. */
function choicesOf(schema: Json, own: boolean): readonly Choice[] | null {
  const named = listOf(schema["oneOf"] ?? schema["anyOf"]).map(objectOf);
  const consts = named.length && named.every((each) => Object.hasOwn(each, "const")) ? named : null;
  const values = consts ? consts.map((each) => each["const"]) : Object.hasOwn(schema, "const") ? [schema["const"]] : listOf(schema["enum"]);
  if (!values.length || values.length > MOST_CHOICES || !values.every(isScalar)) return null;
  const names = listOf(schema["enumNames"]);
  return values.map((value, at) => {
    const text = typeof value === "string" ? value : JSON.stringify(value);
    const title = String((consts?.[at] ?? {})["title"] ?? names[at] ?? text);
    return { value, label: own || title === text ? title : `${title} (${text})` };
  });
}

/** Return whether a field of *kind* can hold *value* as it is. */
function fits(kind: Kind, value: unknown): boolean {
  switch (kind.is) {
    case "choice":
      return kind.choices.some((choice) => isSame(choice.value, value));
    case "several":
      return Array.isArray(value) && value.every((each, at) => kind.choices.some((choice) => isSame(choice.value, each)) && value.findIndex((other) => isSame(other, each)) === at);
    case "flag":
      return typeof value === "boolean";
    case "number":
      return isNumber(value);
    case "text":
      return typeof value === "string";
    case "group":
      return isObject(value);
    case "lines":
      return Array.isArray(value) && value.every((each) => (kind.item === "text" ? typeof each === "string" && each.trim() !== "" && !/[\r\n]/.test(each) : isNumber(each)));
    case "json":
      return true;
  }
}

export function isSame(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

function isNumber(value: unknown): boolean {
  return typeof value === "number" || isExact(value);
}

function isScalar(value: unknown): boolean {
  return value === null || typeof value === "string" || typeof value === "boolean" || isNumber(value);
}

function isObject(value: unknown): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value) && !isExact(value);
}

function objectOf(value: unknown): Json {
  return isObject(value) ? (value as Json) : {};
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** Return *value*, which may be kept as its source, as a number. */
function bound(value: unknown): number | undefined {
  return isNumber(value) ? Number(JSON.stringify(value)) : undefined;
}

function textIn(schemas: readonly Json[], key: string): string {
  return schemas.map((each) => each[key]).find((each): each is string => typeof each === "string" && each.trim() !== "")?.trim() ?? "";
}
