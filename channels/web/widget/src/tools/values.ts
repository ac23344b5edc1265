/** JSON as people read it: objects as lists of names and values, lists of objects as small tables, long ones cut. */

import { h } from "../dom.js";
import { isExact } from "../wire/json.js";
import { inWords } from "../words/spoken.js";
import type { ToolWords } from "./words.js";

type Json = Readonly<Record<string, unknown>>;

const [LONGEST, MOST_LINES] = [600, 12]; // of a text, before it is cut
const [MOST_ROWS, MOST_ITEMS, MOST_COLUMNS] = [8, 12, 6];
const DEEPEST = 3; // below that it is JSON
const CELL = 80; // characters; a list of objects with longer texts is no table

/** Return *value* as a node. */
export function valueNode(value: unknown, words: ToolWords, depth = 0): Node {
  if (typeof value === "string") return textNode(value, words);
  if (isPlain(value)) return document.createTextNode(plainText(value, words));
  const inside = value as Json | readonly unknown[];
  if (!Object.keys(inside).length) return document.createTextNode(words.none);
  if (depth >= DEEPEST) return codeNode(JSON.stringify(value, null, 2), words);
  if (!Array.isArray(inside)) return listNode(inside as Json, words, depth);
  const columns = columnsOf(inside);
  if (columns) return tableNode(inside as readonly Json[], columns, words);
  return cut(inside.map((each) => h("li", {}, valueNode(each, words, depth + 1))), MOST_ITEMS, h("ul"), words.items);
}

/** Return *text* as it is, its beginning alone where it is long. */
export function textNode(text: string, words: ToolWords): HTMLElement {
  return shortened(h("div", { class: "plain", dir: "auto" }), text, words);
}

function codeNode(text: string, words: ToolWords): HTMLElement {
  return shortened(h("pre", { tabindex: "0" }), text, words);
}

function shortened(node: HTMLElement, text: string, words: ToolWords): HTMLElement {
  const signs = [...text.slice(0, 2 * LONGEST)].slice(0, LONGEST).join("");
  const start = signs.split("\n").slice(0, MOST_LINES).join("\n");
  if (start.length === text.length) {
    node.append(text);
    return node;
  }
  const shown = document.createTextNode(`${start}…`);
  node.append(shown);
  return h("div", {}, node, more(words.more, () => (shown.data = text)));
}

function listNode(value: Json, words: ToolWords, depth: number): HTMLElement {
  const pairs = Object.entries(value).map(([name, each]) => h("div", {}, h("dt", {}, inWords(name)), h("dd", {}, valueNode(each, words, depth + 1))));
  return cut(pairs, 2 * MOST_ITEMS, h("dl"), words.items);
}

function tableNode(rows: readonly Json[], columns: readonly string[], words: ToolWords): HTMLElement {
  const body = h("tbody");
  const cell = (value: unknown): HTMLElement => h("td", {}, value === undefined ? "" : plainText(value, words));
  const lines = rows.map((row) => h("tr", {}, ...columns.map((name) => cell(Object.hasOwn(row, name) ? row[name] : undefined))));
  const head = h("thead", {}, h("tr", {}, ...columns.map((name) => h("th", { scope: "col" }, inWords(name)))));
  const box = h("div", { class: "rows", tabindex: "0", role: "group" }, h("table", {}, head, body));
  const all = cut(lines, MOST_ROWS, body, words.rows);
  return all === body ? box : h("div", {}, box, all.lastElementChild as Element);
}

/** Put *nodes* into *list*, the first *most* of them and a button for the others, in a box with the list. */
function cut(nodes: readonly Node[], most: number, list: HTMLElement, label: string): HTMLElement {
  list.append(...nodes.slice(0, most));
  if (nodes.length <= most) return list;
  const button = more(label.replace("{n}", `${nodes.length}`), () => list.append(...nodes.slice(most)));
  return list.tagName === "TBODY" ? h("div", {}, button) : h("div", {}, list, button);
}

function more(label: string, show: () => void): HTMLElement {
  const button = h("button", { type: "button", class: "quiet" }, label);
  button.addEventListener("click", () => (show(), button.remove()));
  return button;
}

/** Return the columns of a list of objects that makes a small table, else null. */
function columnsOf(list: readonly unknown[]): readonly string[] | null {
  if (list.length < 2 || !list.every((each) => each !== null && typeof each === "object" && !Array.isArray(each) && !isExact(each))) return null;
  const columns = [...new Set(list.flatMap((row) => Object.keys(row as Json)))];
  const fits = (value: unknown): boolean => isPlain(value) || (typeof value === "string" && value.length <= CELL && !value.includes("\n"));
  return columns.length && columns.length <= MOST_COLUMNS && list.every((row) => Object.values(row as Json).every(fits)) ? columns : null;
}

function isPlain(value: unknown): boolean {
  return value === null || typeof value === "number" || typeof value === "boolean" || isExact(value);
}

function plainText(value: unknown, words: ToolWords): string {
  if (typeof value === "string") return value;
  return value === null ? words.none : typeof value === "boolean" ? (value ? words.yes : words.no) : JSON.stringify(value);
}
