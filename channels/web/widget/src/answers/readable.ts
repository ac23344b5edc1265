/** What those who hear a text need: levels of headings, names of boxes, and which links leave the page. */

import { setAttribute } from "../dom.js";
import type { AnswerWords } from "./words.js";

const PAGE = 2; // the level of the page's own heading

/** Complete the texts in *body*, which is written out. */
export function readable(body: HTMLElement, { newTab }: AnswerWords): void {
  let above = PAGE;
  for (const each of body.querySelectorAll(".text :is(h3, h4, h5, h6)")) {
    above = Math.min(above + 1, Number(each.localName[1])); // none is left out
    setAttribute(each, "aria-level", String(above));
  }
  for (const box of body.querySelectorAll(".task input")) {
    const isTight = box.parentElement?.localName === "li"; // a loose item is a paragraph
    setAttribute(box, "aria-label", ((isTight ? box.nextSibling : box.parentElement)?.textContent ?? "").trim());
  }
  for (const link of body.querySelectorAll(".text a[href^=http]")) setAttribute(link, "title", newTab);
}
