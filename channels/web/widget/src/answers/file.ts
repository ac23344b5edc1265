/** A file as a card, and a picture as itself; both are fetched with the reader's token. */

import { h, icon, setAttribute } from "../dom.js";
import { unmistakable } from "../legible.js";
import type { SentFile } from "../wire/upload.js";
import type { Scene } from "../transcript/scene.js";
import { PICTURES } from "./buttons.js";
import { enlarge } from "./viewer.js";
import type { AnswerWords } from "./words.js";

const DRAWN = /^image\/(png|jpeg|gif|webp|avif)$/; // what is drawn with pixels alone
const AHEAD = "600px"; // of the visible part: a picture far away is not fetched yet
const LASTS = 10_000; // milliseconds until a file is surely being saved

type Fetch = () => Promise<Blob>;

/** Show in *host* the file of *part*. */
export function fileCard(host: HTMLElement, part: SentFile, { request, strings }: Scene, words: AnswerWords): void {
  const fetched: Fetch = async () => (await request(`/v1/files/${encodeURIComponent(part.file)}`, {})).blob();
  host.replaceChildren(DRAWN.test(part.mime) ? pictureCard(part, fetched, words, strings.locale, host.closest(".log")) : plainCard(part, fetched, words, strings.locale));
}

function plainCard(part: SentFile, fetched: Fetch, words: AnswerWords, locale: string): HTMLElement {
  const name = unmistakable(part.name);
  const about = h("span", { class: "file-about" }, [kindOf(part), sizeOf(part.size, words, locale)].filter(Boolean).join(" · "));
  const wrong = h("span", { class: "wrong", role: "alert" });
  const node = h("button", { type: "button", class: "file-card", title: `${words.download} ${name}` },
    icon(PICTURES.file), h("span", { class: "file-text" }, h("b", {}, h("span", { class: "hidden" }, `${words.download} `), name), about, wrong));
  node.addEventListener("click", async () => {
    if (node.getAttribute("aria-busy")) return;
    setAttribute(node, "aria-busy", "true");
    wrong.replaceChildren();
    try {
      save(await fetched(), part.name);
    } catch {
      wrong.replaceChildren(words.unfetched);
    } finally {
      setAttribute(node, "aria-busy", null);
    }
  });
  return node;
}

/** Return a picture in a box whose size it does not change; it is fetched when it comes near, and given back when it is gone. */
function pictureCard(part: SentFile, fetched: Fetch, words: AnswerWords, locale: string, root: Element | null): HTMLElement {
  const name = unmistakable(part.name);
  const node = h("div", { class: "picture-card", "aria-busy": "true" });
  let url = "";
  const drop = (): void => {
    URL.revokeObjectURL(url);
    url = "";
  };
  const load = async (): Promise<void> => {
    setAttribute(node, "aria-busy", "true");
    node.replaceChildren();
    try {
      const blob = await fetched();
      if (!node.isConnected) return;
      url = URL.createObjectURL(new Blob([blob], { type: part.mime }));
      const image = h("img", { src: url, alt: name });
      await image.decode();
      const open = h("button", { type: "button", title: `${words.enlarge} ${name}`, "aria-label": `${words.enlarge} ${name}` }, image);
      open.addEventListener("click", () => enlarge(node, url, name, words));
      node.replaceChildren(open);
    } catch {
      drop();
      node.replaceChildren(plainCard(part, fetched, words, locale), h("p", { class: "wrong", role: "alert" }, words.unfetched));
    }
    setAttribute(node, "aria-busy", null);
  };
  whileNear(node, root, () => void load(), drop);
  return node;
}

/** Call *load* once *node* comes near what is visible of *root*, and *drop* when it has left the page. */
function whileNear(node: HTMLElement, root: Element | null, load: () => void, drop: () => void): void {
  const near = new IntersectionObserver(([entry]) => {
    if (!entry?.isIntersecting) return;
    near.disconnect();
    load();
  }, { root, rootMargin: AHEAD });
  const size = new ResizeObserver(() => {
    if (node.isConnected) return;
    drop();
    near.disconnect();
    size.disconnect();
  });
  near.observe(node);
  size.observe(node);
}

function save(blob: Blob, name: string): void {
  const url = URL.createObjectURL(new Blob([blob], { type: "application/octet-stream" })); // saved, never opened here
  h("a", { href: url, download: name.replace(/[\p{C}/\\]/gu, "_") }).click();
  setTimeout(() => URL.revokeObjectURL(url), LASTS);
}

/** Return the type of a file as people call it: the end of its name, or what its MIME type says. */
export function kindOf({ name, mime }: SentFile): string {
  const end = /\.([a-z0-9]{1,5})$/i.exec(name)?.[1] ?? /^\w+\/([a-z0-9]{1,5})$/i.exec(mime)?.[1];
  return (end ?? "").toUpperCase();
}

/** Return *bytes* in words, with three digits at most. */
export function sizeOf(bytes: number, { sizes }: AnswerWords, locale: string): string {
  const units = [sizes.byte, sizes.kilobyte, sizes.megabyte, sizes.gigabyte];
  const power = Math.min(units.length - 1, bytes > 0 ? Math.floor(Math.log10(bytes) / 3) : 0);
  const value = new Intl.NumberFormat(locale, { maximumSignificantDigits: 3 }).format(bytes / 1000 ** power);
  return `${value} ${units[power] ?? ""}`;
}

