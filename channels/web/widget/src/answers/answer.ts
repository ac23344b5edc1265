/** What is under an answer: its sources, what can be done with it, and what could be asked next. */

import { h, setAttribute, setChildren } from "../dom.js";
import type { Answer } from "../transcript/entries.js";
import type { Offers, Scene } from "../transcript/scene.js";
import { copyButton, PICTURES, pictured, timeNode, type Copied } from "./buttons.js";
import { cite, type Draw } from "./cite.js";
import { ratingOf, type RatingBar } from "./rating.js";
import { chipsOf } from "./suggestions.js";
import { readable } from "./readable.js";
import type { AnswerWords } from "./words.js";

/** Return a function that shows in *host* what is under the answer whose blocks *body* shows; *draw* makes nodes of markdown. */
export function answerFoot(host: HTMLElement, body: HTMLElement, { offers, strings }: Scene, draw: Draw, words: AnswerWords): (answer: Answer) => void {
  const sources = h("div");
  const said = h("span", { class: "said", role: "status" });
  const say = (text: string): void => said.replaceChildren(text);
  const tools = offers && { offers, rating: ratingOf(offers, words, strings, say) };
  const bar = h("div", { class: "acts", role: "group", "aria-label": words.actions });
  const chips = h("div");
  const copy = copyButton(strings.copy, () => copiedOf(now, body), (done) => say(done ? words.copied : words.uncopied));
  const again = pictured(words.regenerate, PICTURES.again, () => now.asked !== null && tools && (tools.offers.focus(), tools.offers.regenerate?.(now.asked)));
  let now: Answer;
  let stamp = "";
  let count = -1;
  return (answer) => {
    now = answer;
    const seen = JSON.stringify([answer.newest, answer.asked, answer.again, answer.time, answer.run?.status, answer.feedback, answer.blocks.length]);
    if (seen === stamp) return;
    stamp = seen;
    if (count !== answer.blocks.length) {
      count = answer.blocks.length;
      sources.replaceChildren(...cite(answer, body, draw, words));
      readable(body, words);
    }
    if (tools) {
      setAttribute(host, "data-newest", answer.newest);
      setChildren(bar, [...buttonsOf(answer, tools.offers, tools.rating, copy, again), ...[timeNode(answer.time, strings.locale) ?? []].flat(), said]);
      tools.rating.update(answer);
      chips.replaceChildren(...chipsOf(answer, tools.offers, words));
    }
    setChildren(host, [sources, ...(tools ? [bar, tools.rating.form, chips] : [])].filter((each) => each === bar || each.childElementCount));
  };
}

function buttonsOf(answer: Answer, offers: Offers, rating: RatingBar, copy: Node, again: Node): readonly Node[] {
  const isSaid = answer.blocks.some(({ kind }) => kind === "text");
  const isRated = isSaid && answer.run !== undefined && answer.by === null;
  const isRepeated = offers.regenerate !== undefined && answer.asked !== null && answer.again === null;
  return [...(isSaid ? [copy] : []), ...(isRated ? rating.buttons : []), ...(isRepeated ? [again] : [])];
}

/** Return what an answer says: as it was written, and as it is shown, without what is the page's own. */
function copiedOf({ blocks }: Answer, body: HTMLElement): Copied {
  const text = blocks.flatMap((block) => (block.kind === "text" ? [block.text.trim()] : [])).join("\n\n");
  const html = [...body.querySelectorAll(":scope > .text")].map((node) => {
    const copy = node.cloneNode(true) as Element;
    copy.querySelectorAll(".code-bar, .cite").forEach((each) => each.remove());
    copy.querySelectorAll("*").forEach((each) => ["class", "tabindex", "title", "aria-level", "aria-label"].forEach((name) => each.removeAttribute(name)));
    return copy.innerHTML;
  });
  return { text, html: html.join("") };
}

