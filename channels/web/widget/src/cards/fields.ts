/** The arguments of a call: as a list that is read, and as fields that are corrected. */

import { h, setAttribute, setText } from "../dom.js";
import type { Fault } from "../log/events.js";
import { parseExact } from "../wire/json.js";
import { doubt, unmistakable } from "../legible.js";
import { doubtful, type CardStrings } from "./words.js";

type Json = Readonly<Record<string, unknown>>;
export interface Editor {
  readonly node: HTMLElement;
  /** Return the arguments as they are written, null when one of them cannot be read; its field says so. */
  read(): Record<string, unknown> | null;
  /** Show at its field what is wrong with it. */
  mark(faults: readonly Fault[]): void;
}

/** Return *given* as a list of names and values, every value whole, and all of it to be seen. */
export function argumentsNode(given: Json): HTMLElement {
  const rows = Object.entries(given).flatMap(([name, value]) => [
    h("dt", {}, unmistakable(name)),
    h("dd", {}, h("pre", { tabindex: "0" }, unmistakable(textOf(value)))),
  ]);
  return h("dl", { class: "arguments" }, ...rows);
}

/** Return a note for each of *given* that may pass for something else. */
export function doubtNodes(given: Json, strings: CardStrings): readonly HTMLElement[] {
  return Object.entries(given).flatMap(([name, value]) => {
    const found = doubt(name) ?? doubt(textOf(value));
    return found ? [h("p", { class: "note" }, `${strings.approval.closely} ${unmistakable(name)} ${doubtful(found, strings.approval)}.`)] : [];
  });
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

interface Field {
  readonly name: string;
  readonly node: HTMLElement;
  readonly error: HTMLElement;
  readonly input: HTMLElement;
  read(): unknown;
}

/** Return fields for *given*: one for each argument, by the kind of its value; what is neither text, number nor yes or no is JSON. */
export function editor(id: string, given: Json, strings: CardStrings): Editor {
  const fields = Object.entries(given).map(([name, value], index) => fieldOf(`${id}-${index}`, name, value));
  const mark = (faults: readonly Fault[]): void => {
    for (const field of fields) {
      const own = faults.filter(({ path }) => isAt(path, field.name));
      explainAt(field, own.map(({ message }) => message).join(" "));
    }
  };
  return {
    node: h("div", { class: "fields" }, ...fields.map(({ node }) => node)),
    mark,
    read() {
      const written: [string, unknown][] = [];
      let isSound = true;
      for (const field of fields) {
        try {
          written.push([field.name, field.read()]);
          explainAt(field, "");
        } catch {
          explainAt(field, strings.approval.unreadable);
          isSound = false;
        }
      }
      fields.find(({ error }) => error.textContent)?.input.focus();
      return isSound ? Object.fromEntries(written) : null;
    },
  };
}

function isAt(path: string, name: string): boolean {
  return path === `arguments.${name}` || path.startsWith(`arguments.${name}.`) || path.startsWith(`arguments.${name}[`);
}

function explainAt({ error, input }: Field, text: string): void {
  setText(error, text);
  setAttribute(input, "aria-invalid", text ? "true" : null);
}

function fieldOf(id: string, name: string, value: unknown): Field {
  const error = h("span", { class: "wrong", id: `e-${id}`, role: "alert" });
  const attributes = { id: `f-${id}`, "aria-describedby": error.id };
  const label = h("label", { for: attributes.id }, unmistakable(name));
  if (typeof value === "boolean") {
    const input = h("input", { ...attributes, type: "checkbox", checked: value });
    return { name, error, input, node: h("div", { class: "field" }, label, input, error), read: () => input.checked };
  }
  const text = textOf(value);
  const input = h("textarea", { ...attributes, rows: String(Math.min(8, text.split("\n").length + (text.length > 30 ? 1 : 0))), spellcheck: "false" });
  input.value = text;
  const shown = input.value; // a text area changes the ends of lines
  const written = typeof value === "string" ? () => input.value : () => parseExact(input.value);
  const read = (): unknown => (input.value === shown ? value : written());
  return { name, error, input, node: h("div", { class: "field" }, label, input, error), read };
}
