/** What could be asked next: chips under the newest answer, that send what they stand for. */

import { h } from "../dom.js";
import type { Answer } from "../transcript/entries.js";
import type { Offers } from "../transcript/scene.js";
import type { AnswerWords } from "./words.js";

const MOST = 4;

/** Return the chips under *answer*: those that it suggested last, while nothing was sent after it. */
export function chipsOf(answer: Answer, { send, focus }: Offers, words: AnswerWords): readonly Node[] {
  if (!answer.newest || answer.busy) return [];
  const render = answer.blocks.findLast((block) => block.kind === "render" && block.render.kind === "suggestions");
  const items = render?.kind === "render" ? itemsOf(render.render.payload["items"]) : [];
  if (!items.length) return [];
  const chips = items.map(({ label, prompt }) => {
    const chip = h("button", { type: "button", class: "chip", title: prompt === label ? null : prompt, dir: "auto" }, label);
    chip.addEventListener("click", () => (focus(), send(prompt)));
    return chip;
  });
  return [h("div", { class: "chips suggestions", role: "group", "aria-label": words.suggestions }, ...chips)];
}

interface Item {
  readonly label: string;
  readonly prompt: string;
}

function itemsOf(given: unknown): readonly Item[] {
  const isItem = (each: unknown): each is Item => {
    const { label, prompt } = (each ?? {}) as Record<string, unknown>;
    return typeof label === "string" && typeof prompt === "string" && label.trim() !== "" && prompt.trim() !== "";
  };
  return Array.isArray(given) ? given.filter(isItem).slice(0, MOST) : [];
}
