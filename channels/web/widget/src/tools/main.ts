/** The chunk of what went into calls of tools, and came out: loaded when the line of a call is opened. */

import { h, setAttribute, setChildren } from "../dom.js";
import type { Part } from "../log/events.js";
import { textOf, type Call } from "../log/state.js";
import { adopt } from "../styles/adopt.js";
import { opens, sentence, stateOf } from "../transcript/tool.js";
import { parseExact } from "../wire/json.js";
import { merged } from "../words/merge.js";
import type { Strings } from "../words/strings.js";
import css from "./tools.css";
import { textNode, valueNode } from "./values.js";
import { TOOLS, type ToolWords } from "./words.js";

/** What is shown in a host: a node for each call, which stays as long as nothing is new of it. */
const known = new WeakMap<HTMLElement, Map<string, Item>>();

interface Item {
  readonly call: Call;
  readonly node: HTMLElement;
}

/** Show *calls* in *host*: of one what went in and came out, of several a line each, which opens. */
export function show(host: HTMLElement, calls: readonly Call[], strings: Strings): void {
  adopt(host, css);
  const words = merged(TOOLS, strings.tools);
  const before = known.get(host) ?? new Map<string, Item>();
  const several = calls.length > 1;
  const items = calls.map((call): readonly [string, Item] => {
    const key = `${several} ${call.id}`;
    const item = before.get(key);
    return [key, item?.call === call ? item : { call, node: several ? lineOf(call, strings, words, item?.node) : insideOf(call, strings, words) }];
  });
  known.set(host, new Map(items));
  setChildren(host, items.map(([, { node }]) => node));
}

/** Return the line of a call among others; one that was open *before* stays so. */
function lineOf(call: Call, strings: Strings, words: ToolWords, before: HTMLElement | undefined): HTMLElement {
  const line = [h("i", { class: "light", "aria-hidden": "true" }), h("span", {}, sentence(call)), h("span", { class: "status" }, ...stateOf(call, strings))];
  const node = opens(call)
    ? h("details", { class: "step", open: before instanceof HTMLDetailsElement && before.open }, h("summary", {}, ...line), insideOf(call, strings, words))
    : h("div", { class: "step" }, h("div", {}, ...line));
  setAttribute(node, "data-status", call.status);
  return node;
}

function insideOf(call: Call, strings: Strings, words: ToolWords): HTMLElement {
  const box = (label: string, ...inside: readonly (Node | string)[]): Node => h("div", { class: "box" }, h("span", {}, label), h("div", { class: "value" }, ...inside));
  const all: Node[] = [];
  if (!call.approval && Object.keys(call.arguments ?? {}).length) all.push(box(strings.arguments, valueNode(call.arguments, words)));
  if (call.result?.length) {
    const cut = call.truncated ? [h("p", { class: "note" }, strings.truncated)] : [];
    all.push(box(strings.result, resultNode(call.result, words), ...cut));
  }
  return h("div", {}, ...all);
}

/** Return what a tool gave: JSON as people read it, text as text, of others what they are. */
function resultNode(parts: readonly Part[], words: ToolWords): Node {
  const text = textOf(parts);
  if (!text) return textNode(parts.map((part) => (part.type === "file" ? part.name : part.type)).join(", "), words);
  return /^\s*[[{]/.test(text) ? jsonNode(text, words) : textNode(text, words);
}

function jsonNode(text: string, words: ToolWords): Node {
  try {
    return valueNode(parseExact(text), words);
  } catch {
    return textNode(text, words); // cut in its midst, or not JSON after all
  }
}
