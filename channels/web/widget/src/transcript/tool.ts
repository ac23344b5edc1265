/** Calls of tools as one line, with the question that people are asked about one; what went in and out is a chunk's. */

import type { Card } from "../cards/card.js";
import { h, setAttribute, setText } from "../dom.js";
import type { Approval, Call } from "../log/state.js";
import type { Deciding } from "../talk/deciding.js";
import { inWords } from "../words/spoken.js";
import type { Strings } from "../words/strings.js";
import type { ToolBlock } from "./blocks.js";
import { hidden, type Scene, type Shown } from "./scene.js";

/** One call is a sentence, several are "Used 3 tools"; the line opens where there is more to see. */
export function toolNode(scene: Scene): Shown<ToolBlock> {
  const { strings, load } = scene;
  const status = h("span", { class: "status" });
  const name = h("b");
  const line = [h("i", { class: "light", "aria-hidden": "true" }), name, status];
  const node = h("div", { class: "tool" }, h("div", { class: "line" }, ...line));
  const inside = h("div", { class: "inside", "aria-live": "off" });
  const details = h("details", {}, h("summary", { class: "line" }), inside);
  let calls: readonly Call[] = [];
  let card: Shown<Asked> | null = null;
  const fill = (): void => {
    if (!details.open) return;
    load("tools").then((chunk) => chunk.show(inside, calls, strings), () => setText(inside, strings.unloaded));
  };
  details.addEventListener("toggle", fill);
  return {
    node,
    update(block) {
      const next = block.kind === "tool" ? [block.call] : block.calls;
      if (block.kind === "tool" && block.call.approval) {
        card ??= cardLater(block.call.approval, scene);
        card.update(block);
      }
      if (next.length === calls.length && next.every((call, at) => call === calls[at])) return;
      calls = next;
      const { said, state, more } = sumOf(calls, strings);
      setAttribute(node, "data-status", state);
      setText(name, said);
      status.replaceChildren(...more);
      if (calls.length > 1 || opens(calls[0] as Call)) {
        if (!details.parentNode) details.firstElementChild?.append(...line);
        node.replaceChildren(details);
        fill();
      }
      if (card) node.append(card.node);
    },
  };
}

/** What the line of some calls says. */
interface Sum {
  readonly said: string;
  readonly state: Call["status"];
  readonly more: readonly (Node | string)[];
}

/** Several calls are said as the newest that is not over; once all are, how many there were, and what went wrong. */
function sumOf(calls: readonly Call[], strings: Strings): Sum {
  const one = calls.length > 1 ? calls.findLast(({ status }) => /^[rw]/.test(status)) : calls[0];
  if (one) return { said: sentence(one), state: one.status, more: stateOf(one, strings) };
  const bad = calls.filter(({ status }) => status !== "done");
  const state = bad[0]?.status ?? "done";
  return { said: strings.used.replace("{n}", `${calls.length}`), state, more: bad.length ? [`${bad.length} ${strings.tool[state]}`] : [] };
}

/** Return what *call* does, or did, in words. */
export function sentence({ status, name, title, titleDone }: Call): string {
  return (status === "done" && titleDone) || title || inWords(name);
}

/** Return how *call* stands, beside its sentence: what an icon shows is for readers of the screen alone. */
export function stateOf(call: Call, strings: Strings): readonly (Node | string)[] {
  const { status, progress, seconds } = call;
  if (status === "running" && progress) return [progress];
  const word = status === "waiting" && call.on === "client" ? strings.onPage : strings.tool[status];
  return [/^(r|do)/.test(status) ? hidden(word) : word, seconds ? ` · ${seconds} s` : ""];
}

/** Return whether there is more to see of *call* than its sentence. */
export function opens(call: Call): boolean {
  return (!call.approval && Object.keys(call.arguments ?? {}).length > 0) || Boolean(call.result?.length);
}

/** A call with a question, and what this page has said to it. */
interface Asked {
  readonly call: Call;
  readonly deciding?: Deciding | undefined;
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
