/** A form of a question: a field for each thing that can be filled in; what is left untouched goes back as it was. */

import { h } from "../dom.js";
import type { Fault } from "../log/events.js";
import { unmistakable } from "../legible.js";
import { ABSENT, leafNode, type Field } from "./fields.js";
import { lead } from "./onward.js";
import { shapesOf, type Json, type Shape } from "./schema.js";
import type { CardStrings } from "./words.js";

export interface Editor {
  readonly node: HTMLElement;
  /** Whether it says something else than at first. */
  changed(): boolean;
  /** Return the arguments as they are written, null when one of them cannot be read; its field says so. */
  read(): Record<string, unknown> | null;
  /** Show at its field what is wrong with it; return what is about none. */
  mark(faults: readonly Fault[]): readonly Fault[];
}

/** Return fields for *given*, by its *schema*, of a form its *own*; without one by the kinds of what is given. */
export function editor(id: string, schema: Json | undefined, given: Json, strings: CardStrings, own = false): Editor {
  const shapes = shapesOf(schema ?? schemaOf(given), given, own);
  const fields = fieldsOf(id, shapes, given, strings);
  const focusWrong = (): void => {
    lead(fields.map(({ wrong }) => wrong()).find((each) => each !== null));
  };
  return {
    node: h("div", { class: "fields" }, ...fields.map(({ node }) => node)),
    changed: () => fields.some((field) => field.changed()),
    mark(faults) {
      for (const field of fields) field.clear();
      const left = faults.filter(({ path, message }) => !place(fields, path.replace(/^arguments/, ""), plainly(message, strings), strings));
      if (faults.length > left.length) focusWrong();
      return left;
    },
    read() {
      const written = readAll(fields, given);
      if (written === null) focusWrong();
      return written;
    },
  };
}

/** Return what the server says of a field without what is said of all, and of a pattern no more than that it is not met. */
function plainly(message: string, { approval: words }: CardStrings): string {
  const said = message.replace(/^does not fit the (schema|form) of `[^`]*`: /, "");
  return / does not match '.*'$/s.test(said) ? words.pattern : said;
}

/** Return a schema that says of *given* no more than what it is. */
function schemaOf(given: Json): Json {
  const types = Object.entries(given).map(([name, value]) => [name, typeof value === "boolean" || typeof value === "string" ? { type: typeof value } : {}]);
  return { properties: Object.fromEntries(types), required: Object.keys(given) };
}

function fieldsOf(id: string, shapes: readonly Shape[], given: Json, strings: CardStrings): readonly Field[] {
  return shapes.map((shape, at) => {
    const value = Object.hasOwn(given, shape.name) ? given[shape.name] : ABSENT;
    return shape.kind.is === "group" ? group(`${id}-${at}`, shape, shape.kind.shapes, value, strings) : leafNode(`${id}-${at}`, shape, value, strings);
  });
}

/** Return a field of fields: an object that has others in it. */
function group(id: string, shape: Shape, shapes: readonly Shape[], value: unknown, strings: CardStrings): Field {
  const before = (value === ABSENT || value === null ? {} : value) as Json;
  const fields = fieldsOf(id, shapes, before, strings);
  const error = h("span", { class: "wrong", role: "alert" });
  const hint = shape.hint && h("p", { class: "hint" }, h("bdi", {}, unmistakable(shape.hint)));
  const node = h("fieldset", {}, h("legend", {}, h("bdi", {}, unmistakable(shape.label))), hint, ...fields.map(({ node: each }) => each), error);
  const isLeft = (): boolean => !fields.some((field) => field.changed()) && !(shape.required && value === ABSENT);
  return {
    name: shape.name,
    node,
    changed: () => fields.some((field) => field.changed()),
    wrong: () => fields.map((field) => field.wrong()).find((each) => each !== null) ?? null,
    clear() {
      error.textContent = "";
      for (const field of fields) field.clear();
    },
    mark(rest, message) {
      if (!place(fields, rest, message, strings)) error.textContent = message;
    },
    read() {
      return isLeft() ? value : readAll(fields, before);
    },
    sound: () => isLeft() || fields.map((field) => field.sound()).every(Boolean),
  };
}

function readAll(fields: readonly Field[], given: Json): Record<string, unknown> | null {
  if (!fields.map((field) => field.sound()).every(Boolean)) return null;
  const written = new Map(Object.entries(given));
  for (const field of fields) {
    const value = field.read();
    if (value === ABSENT) written.delete(field.name);
    else written.set(field.name, value);
  }
  return Object.fromEntries(written);
}

/** Say *message* at that of *fields* which *path* leads to; whether there is one. */
function place(fields: readonly Field[], path: string, message: string, { approval: words }: CardStrings): boolean {
  const missing = path === "" && /^'(.+)' is a required property$/.exec(message)?.[1];
  if (missing) {
    const field = fields.find(({ name }) => name === missing);
    field?.mark("", words.required);
    return field !== undefined;
  }
  for (const field of fields) {
    const start = [`.${field.name}`, `['${field.name}']`, `["${field.name}"]`].find((each) => path.startsWith(each) && /^($|[.[])/.test(path.slice(each.length)));
    if (start === undefined) continue;
    field.mark(path.slice(start.length), message);
    return true;
  }
  return false;
}
