/** The sources of an answer: numbered marks where they are used, and a list of them below. */

import { h } from "../dom.js";
import { unmistakable } from "../legible.js";
import type { Citation } from "../log/events.js";
import type { Answer } from "../transcript/entries.js";
import type { AnswerWords } from "./words.js";

/** Makes nodes of markdown. */
export type Draw = (text: string) => readonly Node[];

interface Source {
  readonly number: number;
  readonly name: string;
  readonly url: string | null;
}

const MARK = "\u2e4f"; // no text has it, and markdown takes it for punctuation
const LONGEST = 120; // characters of a quotation that stands for a title

/** Put marks into the texts of *answer*, which *body* shows, and return the list of its sources: none without citations. */
export function cite(answer: Answer, body: HTMLElement, draw: Draw, words: AnswerWords): readonly Node[] {
  const texts = answer.blocks.filter((block) => block.kind === "text");
  if (!texts.some((block) => block.kind === "text" && block.citations?.length)) return [];
  const sources = new Map<string, Source>();
  const nodes = body.querySelectorAll<HTMLElement>(":scope > .text");
  texts.forEach((block, at) => {
    const node = nodes[at];
    if (block.kind !== "text" || !block.citations || !node) return;
    mark(node, block.text, block.citations.map((each) => [each.end, sourceOf(each, sources, words)]), draw, words);
  });
  const rows = [...sources.values()].map(({ name, url }) => h("li", {}, url ? outward(url, name, words) : name));
  return [h("section", { class: "sources", "aria-label": words.sources }, h("p", {}, words.sources), h("ol", {}, ...rows))];
}

function sourceOf({ url, title, text, source }: Citation, known: Map<string, Source>, words: AnswerWords): Source {
  const safe = webUrl(url);
  const quoted = text && text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
  const name = unmistakable((title || source || (safe && new URL(safe).host) || quoted || words.source).replace(/\s+/g, " "));
  const key = safe ?? ` ${name}`;
  const found = known.get(key) ?? { number: known.size + 1, name, url: safe };
  known.set(key, found);
  return found;
}

/** Return *url* where it is one of the web; nothing else is followed from here. */
function webUrl(url: string | undefined): string | null {
  try {
    const found = new URL(url ?? "");
    return /^https?:$/.test(found.protocol) ? found.href : null;
  } catch {
    return null;
  }
}

function outward(url: string, text: string, { newTab }: AnswerWords): HTMLElement {
  return h("a", { href: url, target: "_blank", rel: "noopener noreferrer nofollow", title: newTab }, text);
}

type Cited = readonly (readonly [end: number | undefined, source: Source])[];

/**
 * Draw *text* once more in *node*, with a mark after each place that has a source.
 *
 * The marks go through markdown as a letter of their own. Where that changes what is shown, as inside of an address, all of
 * them come at the end instead, if that is a paragraph; those of an unknown place do anyway.
 */
function mark(node: HTMLElement, text: string, cited: Cited, draw: Draw, words: AnswerWords): void {
  const places = placesOf(text, cited);
  const host = h("div", {}, ...draw(withMarks(text, [...places.keys()])));
  const plain = h("div", {}, ...draw(text));
  const isSame = !text.includes(MARK) && host.innerHTML.replaceAll(MARK, "") === plain.innerHTML && count(host.textContent) === places.size;
  const inText = isSame ? [...places.values()] : [];
  const rest = cited.filter(([end]) => !isSame || end === undefined).map(([, source]) => source);
  const drawn = isSame ? host : plain;
  setMarks(drawn, inText, words);
  if (drawn.lastElementChild?.matches("p")) drawn.lastElementChild.append(...marksOf(rest, words));
  const dressed = node.querySelectorAll(".code"); // they have their colours already
  drawn.querySelectorAll(".code").forEach((code, at) => code.replaceWith(dressed[at] ?? code));
  node.replaceChildren(...drawn.childNodes);
}

/** Return the sources by where their marks come, in units of *text*, from its beginning on. */
function placesOf(text: string, cited: Cited): ReadonlyMap<number, readonly Source[]> {
  const points = [...text];
  const places = new Map<number, Source[]>();
  for (const [end, source] of [...cited].sort(([one = 0], [other = 0]) => one - other)) {
    if (end === undefined) continue;
    const at = points.slice(0, end).join("").trimEnd().length;
    const found = places.get(at) ?? [];
    places.set(at, found.includes(source) ? found : [...found, source]);
  }
  return places;
}

function withMarks(text: string, places: readonly number[]): string {
  return places.map((at, index) => text.slice(places[index - 1] ?? 0, at) + MARK).join("") + text.slice(places.at(-1) ?? 0);
}

function count(text: string | null): number {
  return (text ?? "").split(MARK).length - 1;
}

/** Put marks in the places of the letters that stand for them: after code and links, which hold none. */
function setMarks(host: Element, marks: readonly (readonly Source[])[], words: AnswerWords): void {
  const walker = document.createTreeWalker(host, 4 /* texts */);
  const found: Text[] = [];
  while (walker.nextNode()) found.push(walker.currentNode as Text);
  let next = 0;
  for (const node of found) {
    const pieces = node.data.split(MARK);
    if (pieces.length === 1) continue;
    const whole = node.parentElement?.closest(".code") ?? node.parentElement?.closest("code, a");
    const nodes = pieces.slice(1).flatMap((piece) => {
      const made = marksOf(marks[next++] ?? [], words);
      return whole ? (whole.after(...made), [piece]) : [...made, piece];
    });
    node.replaceWith(...[pieces[0] ?? "", ...nodes].filter((each) => each !== ""));
  }
}

function marksOf(sources: readonly Source[], words: AnswerWords): readonly HTMLElement[] {
  return [...new Set(sources)].map(({ number, name, url }) => {
    const label = `${words.source} ${number}: ${name}`;
    const inside = url ? outward(url, String(number), words) : h("span", { role: "img" }, String(number));
    inside.setAttribute("aria-label", label);
    inside.title = name;
    return h("sup", { class: "cite" }, inside);
  });
}
