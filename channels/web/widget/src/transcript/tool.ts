/** A call of a tool as a node, with the question that people are asked about it. */

import type { Card } from "../cards/card.js";
import { h, setAttribute, setText } from "../dom.js";
import type { Part } from "../log/events.js";
import { textOf, type Approval, type Call } from "../log/state.js";
import type { Deciding } from "../talk/deciding.js";
import type { Strings } from "../words/strings.js";
import type { Block } from "./entries.js";
import type { Scene, Shown } from "./scene.js";

/** A line per call; where the reader may see what went in and out, it opens. */
export function toolNode(scene: Scene): Shown<Block & { kind: "tool" }> {
  const { strings } = scene;
  const status = h("span", { class: "status" });
  const name = h("b");
  const line = [h("i", { class: "light", "aria-hidden": "true" }), name, status];
  const node = h("div", { class: "tool" }, h("div", { class: "line" }, ...line));
  const details = h("details");
  let last: Call | null = null;
  let card: Shown<Asked> | null = null;
  return {
    node,
    update({ call, deciding }) {
      if (call.approval) {
        card ??= cardLater(call.approval, scene);
        card.update({ call, deciding });
        if (!card.node.parentNode) node.append(card.node);
      }
      if (call === last) return;
      last = call;
      setAttribute(node, "data-status", call.status);
      setText(name, call.title ?? call.name);
      setText(status, statusOf(call, strings));
      const inside = detailsOf(call, strings);
      if (!inside.length) return;
      if (!details.parentNode) {
        details.append(h("summary", { class: "line" }, ...line));
        node.replaceChildren(details, ...(card ? [card.node] : []));
      }
      details.replaceChildren(details.firstChild as Node, ...inside);
    },
  };
}

function statusOf(call: Call, strings: Strings): string {
  if (call.status === "running" && call.progress) return call.progress;
  const status = call.status === "waiting" && call.on === "client" ? strings.onPage : strings.tool[call.status];
  return call.seconds ? `${status} · ${call.seconds} s` : status;
}

function detailsOf(call: Call, strings: Strings): readonly Node[] {
  const box = (label: string, text: string): Node => h("div", { class: "box" }, h("span", {}, label), h("pre", { tabindex: "0" }, text));
  const all: Node[] = [];
  if (call.arguments && !call.approval) all.push(box(strings.arguments, JSON.stringify(call.arguments, null, 2)));
  const result = call.result && resultText(call.result);
  if (result) all.push(box(strings.result, call.truncated ? `${result}\n${strings.truncated}` : result));
  return all;
}

function resultText(parts: readonly Part[]): string {
  return textOf(parts) || parts.map((part) => (part.type === "file" ? part.name : part.type)).join(", ");
}


/** A call with a question, and what this page has said to it. */
interface Asked {
  readonly call: Call;
  readonly deciding: Deciding | undefined;
}

/** Return the place of a question: its title, until the card is loaded. */
function cardLater(first: Approval, { load, decide, strings }: Scene): Shown<Asked> {
  const node = h("div", { class: "asked" }, h("p", { class: "note" }, first.title));
  let card: Card | null = null;
  let last: Asked | null = null;
  load("cards").then((chunk) => {
    card = chunk.card(node, first, decide, strings);
    node.replaceChildren(card.node);
    if (last) card.update(last.call, last.deciding);
  }, () => node.append(h("p", { class: "note" }, strings.unloaded)));
  return {
    node,
    update(asked) {
      last = asked;
      card?.update(asked.call, asked.deciding);
    },
  };
}
