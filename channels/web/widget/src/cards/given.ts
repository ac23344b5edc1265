/** The arguments of a call, to be read: every value whole, and all of it to be seen. */

import { h } from "../dom.js";
import { doubt, unmistakable } from "../legible.js";
import { shapesOf, isSame, type Json, type Shape } from "./schema.js";
import { doubtful, type CardStrings } from "./words.js";

/** Return *given* as a list of what its *schema*, of a form its *own*, calls them, and values. */
export function argumentsNode(given: Json, schema: Json | undefined, strings: CardStrings, own = false): HTMLElement {
  const shapes = shapesOf(schema ?? {}, given, own).filter(({ name }) => Object.hasOwn(given, name));
  const rows = shapes.flatMap((shape) => [h("dt", {}, unmistakable(shape.label)), h("dd", {}, valueNode(shape, given[shape.name], strings))]);
  return h("dl", { class: "arguments" }, ...rows);
}

/** Return a note for each of *given* that may pass for something else. */
export function doubtNodes(given: Json, strings: CardStrings): readonly HTMLElement[] {
  return Object.entries(given).flatMap(([name, value]) => {
    const found = doubt(name) ?? doubt(textOf(value));
    return found ? [h("p", { class: "note" }, `${strings.approval.closely} ${unmistakable(name)} ${doubtful(found, strings.approval)}.`)] : [];
  });
}

function valueNode({ kind }: Shape, value: unknown, strings: CardStrings): Node {
  const chosen = kind.is === "choice" ? kind.choices.find((choice) => isSame(choice.value, value)) : undefined;
  if (chosen) return pre(chosen.label);
  if (kind.is === "several" && Array.isArray(value) && value.length) {
    const labels = value.map((each) => kind.choices.find((choice) => isSame(choice.value, each)));
    if (labels.every((each) => each !== undefined)) return pre(labels.map(({ label }) => label).join("\n"));
  }
  if (typeof value === "boolean") return pre(value ? strings.approval.yes : strings.approval.no);
  if (kind.is === "group") {
    const inside = value as Json;
    const rows = kind.shapes.filter(({ name }) => Object.hasOwn(inside, name)).flatMap((shape) => [h("dt", {}, unmistakable(shape.label)), h("dd", {}, valueNode(shape, inside[shape.name], strings))]);
    return rows.length ? h("dl", { class: "arguments" }, ...rows) : pre(textOf(value));
  }
  return pre(kind.is === "lines" && Array.isArray(value) && value.length ? value.map(textOf).join("\n") : textOf(value));
}

function pre(text: string): HTMLElement {
  return h("pre", { tabindex: "0" }, unmistakable(text));
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}
