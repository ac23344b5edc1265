/** Calls of tools as one line that opens, with the question that people are asked about one. */

import type { Card } from "../cards/card.js";
import { h, setAttribute, setChildren, setText } from "../dom.js";
import type { Approval, Call } from "../log/state.js";
import type { Deciding } from "../talk/deciding.js";
import type { ToolBlock } from "../transcript/blocks.js";
import type { Scene, Shown } from "../transcript/scene.js";
import { opens, showInside } from "./inside.js";
import { lineOf } from "./sentence.js";
import { whole } from "./words.js";

/** Draw in *node* one call as a sentence, several as "Used 3 tools"; the line opens where there is more to see. */
export function lineNode(node: HTMLElement, scene: Scene): Shown<ToolBlock> {
  const strings = whole(scene.strings);
  const status = h("span", { class: "status" });
  const name = h("b", { dir: "auto" });
  const light = h("i", { class: "light", "aria-hidden": "true" });
  const line = [light, name, status];
  const closed = h("div", { class: "line" }, ...line);
  const inside = h("div", { class: "inside", "aria-live": "off" });
  const summary = h("summary", { class: "line" });
  const details = h("details", {}, summary, inside);
  let calls: readonly Call[] = [];
  let card: Shown<Asked> | null = null;
  const fill = (): void => {
    if (details.open) showInside(inside, calls, strings);
  };
  details.addEventListener("toggle", fill);
  summary.addEventListener("click", () => details.open || showInside(inside, calls, strings)); // before it opens, so that it is as large at once as it will be
  node.className = "tool";
  node.replaceChildren(closed);
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
      const { said, state, more } = lineOf(calls, strings);
      for (const each of [node, light]) setAttribute(each, "data-status", state);
      setText(name, said);
      status.replaceChildren(...more);
      const isOpening = calls.length > 1 || opens(calls[0] as Call);
      setChildren(isOpening ? summary : closed, line);
      const isAsked = block.kind === "tool" && block.call.approval?.status === "open"; // then its card says it all
      setChildren(node, [...(isAsked ? [] : [isOpening ? details : closed]), ...(card ? [card.node] : [])]);
      fill();
    },
  };
}

/** A call with a question, and what this page has said to it. */
interface Asked {
  readonly call: Call;
  readonly deciding?: Deciding | undefined;
}

/** Return the place of a question: its title, until the card is loaded. */
function cardLater(first: Approval, { load, decide, strings, offers }: Scene): Shown<Asked> {
  const node = h("div", { class: "asked" }, h("p", { class: "note" }, h("bdi", {}, first.title)));
  let card: Card | null = null;
  let last: Asked | null = null;
  load("cards").then((chunk) => {
    card = chunk.card(node, first, decide, strings, !offers);
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
