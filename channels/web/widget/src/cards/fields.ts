/** One field of a form: by its kind a choice of one or of several, a check mark, a number, a text, lines, or JSON. */

import { h, setAttribute, setText } from "../dom.js";
import { unmistakable } from "../legible.js";
import { parseExact } from "../wire/json.js";
import { isSame, type Choice, type Kind, type Shape } from "./schema.js";
import type { CardStrings, CardWords } from "./words.js";

/** What is left out. */
export const ABSENT = Symbol("absent");

export interface Field {
  readonly name: string;
  readonly node: HTMLElement;
  /** Whether it says something else than at first. */
  changed(): boolean;
  /** Check what is written, and say what is wrong with it. */
  sound(): boolean;
  /** Return what is written once it is sound: the very value of before where it was not touched. */
  read(): unknown;
  /** Return what is to be corrected first, if anything is. */
  wrong(): HTMLElement | null;
  clear(): void;
  /** Say *message*, which is about the part *rest* of it. */
  mark(rest: string, message: string): void;
}

/** What a person writes in, as text. */
interface Control {
  readonly input: HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement | HTMLFieldSetElement;
  state(): string;
  /** Return the value of what is written; throws the word for what is wrong. */
  value(): unknown;
}

class Wrong extends Error {}

/** Return the field of *shape*, which holds *value* at first. */
export function leafNode(id: string, of: Shape, value: unknown, { approval: words }: CardStrings): Field {
  const shape = of.kind.is === "flag" && of.required && value === ABSENT ? { ...of, kind: yesOrNo(words) } : of; // an empty box says nothing
  const error = h("span", { class: "wrong", id: `e-${id}`, role: "alert" });
  const hint = shape.hint ? h("span", { class: "hint", id: `h-${id}` }, h("bdi", {}, unmistakable(shape.hint))) : null;
  const note = shape.kind.is === "lines" ? h("span", { class: "hint", id: `l-${id}` }, words.lines) : null;
  const { input, state, value: written } = controlOf(shape, value, words);
  const described = [error, hint, note].filter((each) => each !== null).map((each) => each.id).join(" ");
  for (const [name, text] of [["id", `f-${id}`], ["aria-describedby", described], ["aria-required", shape.required && shape.kind.is !== "flag" && shape.kind.is !== "several" ? "true" : null]] as const) setAttribute(input, name, text);
  const optional = shape.required || shape.kind.is === "flag" ? null : h("span", { class: "hint" }, ` ${words.optional}`);
  const row = named(id, shape, input, optional);
  const first = state();
  const say = (text: string): void => {
    setText(error, text);
    if (shape.kind.is !== "several") setAttribute(input, "aria-invalid", text ? "true" : null); // a group has no such state
  };
  const changed = (): boolean => state() !== first || input.validity.badInput;
  const read = (): unknown => (changed() || (value === ABSENT && shape.required) ? written() : value);
  return {
    name: shape.name,
    node: h("div", { class: "field" }, ...row, hint, note, error),
    changed,
    read,
    sound() {
      try {
        read();
      } catch (problem) {
        say(problem instanceof Wrong ? problem.message : words.unreadable);
        return false;
      }
      say("");
      return true;
    },
    wrong: () => (error.textContent ? input : null),
    clear: () => say(""),
    mark: (rest, message) => say([error.textContent, rest ? `${rest.replace(/^\./, "")}: ${message}` : message].filter(Boolean).join(" ")),
  };
}

function yesOrNo(words: CardWords): Kind {
  return { is: "choice", choices: [{ label: words.yes, value: true }, { label: words.no, value: false }] };
}

/** Return *input* with the label of *shape*, which is the legend of a group. */
function named(id: string, { kind, label }: Shape, input: HTMLElement, optional: Node | null): readonly HTMLElement[] {
  if (kind.is === "several") {
    input.prepend(h("legend", {}, h("bdi", {}, unmistakable(label)), optional));
    return [input];
  }
  const name = h("label", { for: `f-${id}` }, h("bdi", {}, unmistakable(label)), optional);
  return kind.is === "flag" ? [h("div", { class: "flag" }, input, name)] : [name, input];
}

function controlOf(shape: Shape, value: unknown, words: CardWords): Control {
  const { kind } = shape;
  switch (kind.is) {
    case "choice":
      return choice(shape, kind.choices, value, words);
    case "several":
      return severalControl(shape, kind, value, words);
    case "flag": {
      const input = h("input", { type: "checkbox", checked: value === true });
      return { input, state: () => `${input.checked}`, value: () => input.checked };
    }
    case "number":
      return numberControl(shape, kind, value, words);
    case "text":
      return textControl(shape, kind, value, words);
    case "lines":
      return linesControl(shape, kind.item, value, words);
    default:
      return jsonControl(shape, value, words);
  }
}

/** Return what an empty field stands for; throws where it must not be empty. */
function nothing({ required, nullable }: Shape, words: CardWords): unknown {
  if (nullable) return null;
  if (required) throw new Wrong(words.required);
  return ABSENT;
}

function choice(shape: Shape, choices: readonly Choice[], value: unknown, words: CardWords): Control {
  const at = choices.findIndex((each) => isSame(each.value, value));
  const blank = at < 0 || !shape.required ? [h("option", { value: "" }, words.choose)] : [];
  const input = h("select", {}, ...blank, ...choices.map((each, index) => h("option", { value: `${index}` }, unmistakable(each.label))));
  input.value = at < 0 ? "" : `${at}`;
  return { input, state: () => input.value, value: () => (input.value === "" ? nothing(shape, words) : choices[Number(input.value)]?.value) };
}

function severalControl(shape: Shape, kind: Kind & { is: "several" }, value: unknown, words: CardWords): Control {
  const given = Array.isArray(value) ? (value as readonly unknown[]) : [];
  const boxes = kind.choices.map((each) => ({ value: each.value, label: each, box: h("input", { type: "checkbox", checked: given.some((one) => isSame(one, each.value)) }) }));
  const rows = boxes.map(({ label, box }) => h("label", { class: "flag" }, box, h("bdi", {}, unmistakable(label.label))));
  const chosen = (): typeof boxes => boxes.filter(({ box }) => box.checked);
  const written = (): unknown => {
    const values = chosen().map((each) => each.value);
    if (!values.length && !shape.required) return shape.nullable ? null : ABSENT;
    if (kind.least !== undefined && values.length < kind.least) throw new Wrong(words.least.replace("{n}", `${kind.least}`));
    if (kind.most !== undefined && values.length > kind.most) throw new Wrong(words.most.replace("{n}", `${kind.most}`));
    return values;
  };
  return { input: h("fieldset", { tabindex: "-1" }, ...rows), state: () => JSON.stringify(boxes.map(({ box }) => box.checked)), value: written };
}

function numberControl(shape: Shape, kind: Kind & { is: "number" }, value: unknown, words: CardWords): Control {
  const text = value === ABSENT || value === null ? "" : JSON.stringify(value);
  const input = h("input", { type: "number", step: kind.step ? `${kind.step}` : kind.whole ? "1" : "any", inputmode: kind.whole ? "numeric" : "decimal" });
  for (const [name, bound] of [["min", kind.least], ["max", kind.most]] as const) setAttribute(input, name, bound === undefined ? null : `${bound}`);
  input.value = text;
  if (input.value !== text) {
    input.type = "text"; // a number that browsers cannot hold in a field of numbers
    input.value = text;
  }
  input.addEventListener("wheel", () => input.blur(), { passive: true }); // to scroll is not to count
  const state = (): string => input.value;
  return { input, state, value: () => (input.value.trim() || input.validity.badInput ? inBounds(numberIn(input.value, kind.whole, words), kind, words) : nothing(shape, words)) };
}

/** Return the number that *text* is, digit by digit. */
function numberIn(text: string, whole: boolean, words: CardWords): unknown {
  const found = /^\s*([+-]?)0*(\d+|\d*\.\d+)([eE][+-]?\d+)?\s*$|^\s*([+-]?)0*(\d+\.\d*)\s*$/.exec(text);
  if (!found) throw new Wrong(whole ? words.whole : words.number);
  const sign = (found[1] ?? found[4]) === "-" ? "-" : "";
  const digits = (found[2] ?? found[5] ?? "").replace(/^\./, "0.").replace(/\.$/, "");
  if (whole && (digits.includes(".") || found[3])) throw new Wrong(words.whole);
  return parseExact(`${sign}${digits}${found[3] ?? ""}`);
}

function inBounds(value: unknown, { least, most, over, under }: Kind & { is: "number" }, words: CardWords): unknown {
  const number = Number(JSON.stringify(value));
  const say = (word: string, bound: number): never => {
    throw new Wrong(word.replace("{n}", `${bound}`));
  };
  if (least !== undefined && number < least) say(words.least, least);
  if (most !== undefined && number > most) say(words.most, most);
  if (over !== undefined && number <= over) say(words.over, over);
  if (under !== undefined && number >= under) say(words.under, under);
  return value;
}

function textControl(shape: Shape, kind: Kind & { is: "text" }, value: unknown, words: CardWords): Control {
  const text = typeof value === "string" ? value : "";
  const isTime = kind.input === "datetime-local";
  const input = kind.long ? area(text) : line(kind.input, text, isTime ? localOf(text) : text);
  const written = (): unknown => {
    if (input.validity.badInput || input.validity.typeMismatch) throw new Wrong(words.format);
    if (!input.value.trim() && (value === ABSENT || !shape.required || shape.nullable || kind.input !== "text")) return nothing(shape, words);
    const length = [...input.value].length;
    if (kind.least !== undefined && length < kind.least) throw new Wrong(length ? words.longer.replace("{n}", `${kind.least}`) : words.required);
    if (kind.most !== undefined && length > kind.most) throw new Wrong(words.shorter.replace("{n}", `${kind.most}`));
    return input.type === "datetime-local" ? new Date(input.value).toISOString().replace(".000Z", "Z") : input.value;
  };
  return { input, state: () => input.value, value: written };
}

/** Return a field of one line that holds *shown*, or *text* where that is not of its *type*. */
function line(type: string, text: string, shown: string): HTMLInputElement {
  const input = h("input", { type, step: /time/.test(type) ? "1" : null });
  input.value = shown;
  if (input.value === shown) return input;
  input.type = "text";
  input.value = text;
  return input;
}

/** Return *text*, a time with its zone, as a field of local times holds it. */
function localOf(text: string): string {
  const time = /T.*(Z|[+-]\d\d:?\d\d)$/i.test(text) ? new Date(text) : null;
  if (!time || Number.isNaN(time.getTime())) return text;
  const two = (each: number): string => `${each}`.padStart(2, "0");
  const day = `${`${time.getFullYear()}`.padStart(4, "0")}-${two(time.getMonth() + 1)}-${two(time.getDate())}`;
  const seconds = time.getSeconds() ? `:${two(time.getSeconds())}` : "";
  return `${day}T${two(time.getHours())}:${two(time.getMinutes())}${seconds}`;
}

function linesControl(shape: Shape, item: "text" | "number" | "whole", value: unknown, words: CardWords): Control {
  const list = Array.isArray(value) ? (value as readonly unknown[]) : [];
  const input = area(list.map((each) => (typeof each === "string" ? each : JSON.stringify(each))).join("\n"));
  const written = (): unknown => {
    const lines = input.value.split("\n").filter((line) => line.trim());
    if (!lines.length && (value === ABSENT || value === null || shape.nullable)) return shape.required && !shape.nullable ? [] : nothing(shape, words);
    return lines.map((line) => (item === "text" ? line : numberIn(line, item === "whole", words)));
  };
  return { input, state: () => input.value, value: written };
}

function jsonControl(shape: Shape, value: unknown, words: CardWords): Control {
  const input = area(value === ABSENT ? "" : JSON.stringify(value, null, 2));
  return { input, state: () => input.value, value: () => (input.value.trim() ? parseExact(input.value) : nothing(shape, words)) };
}

function area(text: string): HTMLTextAreaElement {
  const rows = Math.min(8, text.split("\n").length + (text.length > 60 ? 1 : 0));
  const input = h("textarea", { rows: `${rows}`, spellcheck: "false" });
  input.value = text;
  return input;
}
