/** What the line of calls opens to: of one what went in and came out, of several a line each. */

import { h, setChildren } from "../dom.js";
import type { Part } from "../log/events.js";
import { textOf, type Call } from "../log/state.js";
import { parseExact } from "../wire/json.js";
import { sentence, stateOf } from "./sentence.js";
import { textNode, valueNode } from "./values.js";
import type { ToolStrings, ToolWords } from "./words.js";

interface Item {
  readonly call: Call;
  readonly node: HTMLElement;
}

/** What is shown in a host: a node for each call, which stays as long as nothing is new of it. */
const known = new WeakMap<HTMLElement, ReadonlyMap<string, Item>>();

/** Show *calls* in *host*. */
export function showInside(host: HTMLElement, calls: readonly Call[], strings: ToolStrings): void {
  const before = known.get(host);
  const several = calls.length > 1;
  const items = new Map<string, Item>();
  for (const call of calls) {
    const key = `${several} ${call.id}`;
    const item = before?.get(key);
    items.set(key, item?.call === call ? item : { call, node: several ? stepNode(call, strings, item?.node) : insideNode(call, strings) });
  }
  known.set(host, items);
  setChildren(host, [...items.values()].map(({ node }) => node));
}

/** Return whether there is more to see of *call* than its sentence; the arguments of a question are on its card. */
export function opens(call: Call): boolean {
  return (!call.approval && Object.keys(call.arguments ?? {}).length > 0) || Boolean(call.result?.length);
}

/** Return the line of a call among others; one that was open *before* stays so. */
function stepNode(call: Call, strings: ToolStrings, before: HTMLElement | undefined): HTMLElement {
  const line = [h("i", { class: "light", "data-status": call.status, "aria-hidden": "true" }), h("span", {}, sentence(call)), h("span", { class: "status" }, ...stateOf(call, strings))];
  return opens(call)
    ? h("details", { class: "step", open: before?.hasAttribute("open") ?? false }, h("summary", {}, ...line), insideNode(call, strings))
    : h("div", { class: "step" }, h("div", {}, ...line));
}

function insideNode(call: Call, strings: ToolStrings): HTMLElement {
  const box = (label: string, ...inside: readonly Node[]): Node => h("div", { class: "box" }, h("span", {}, label), h("div", { class: "value" }, ...inside));
  const all: Node[] = [];
  if (!call.approval && Object.keys(call.arguments ?? {}).length) all.push(box(strings.tools.arguments, valueNode(call.arguments, strings.tools)));
  if (call.result?.length) {
    const cut = call.truncated ? [h("p", { class: "note" }, strings.tools.truncated)] : [];
    all.push(box(strings.tools.result, resultNode(call.result, strings.tools), ...cut));
  }
  return h("div", {}, ...all);
}

/** Return what a tool gave: JSON as people read it, text as text, of others what they are. */
function resultNode(parts: readonly Part[], words: ToolWords): Node {
  const text = textOf(parts);
  if (!text) return textNode(parts.map((part) => (part.type === "file" ? part.name : part.type)).join(", "), words);
  if (!/^\s*[[{]/.test(text)) return textNode(text, words);
  try {
    return valueNode(parseExact(text), words);
  } catch {
    return textNode(text, words); // cut in its midst, or not JSON after all
  }
}
