/** A chart that the server draws: fetched with the reader's token, shown as a picture. */

import type { Request } from "../wire/client.js";
import { h, setAttribute } from "../dom.js";
import type { Render } from "../log/state.js";
import { dataButton, frameOf } from "./frame.js";
import { dataOf, headOf } from "./payload.js";
import { saveFile } from "./save.js";
import { csvBlob, gridOf } from "./table.js";
import type { DrawnStrings } from "./words.js";

const AHEAD = "600px"; // of the visible part: what is far away is not drawn yet

/** Return *render*, called *fallback* if it has no title, as a figure with the server's drawing in it, and its text where there is none. */
export function pictureNode(render: Render, fallback: string, request: Request, words: DrawnStrings): HTMLElement {
  const { id, title, text } = render;
  const name = title ?? fallback;
  const frame = frameOf(title, fallback, words);
  const place = h("div", { class: "picture", "aria-busy": "true" }, h("p", { class: "note", role: "status" }, words.drawing));
  const shown: { url: string | null; dark: boolean | null } = { url: null, dark: null };
  const fetched = async (form: "png" | "svg", dark: boolean): Promise<Blob> =>
    (await request(`/v1/renders/${encodeURIComponent(id)}.${form}${dark ? "?theme=dark" : ""}`, {})).blob();
  const drop = (): void => {
    if (shown.url) URL.revokeObjectURL(shown.url);
    shown.url = null;
  };
  const fail = (): void => {
    drop();
    const retry = h("button", { type: "button", class: "quiet" }, words.retry);
    retry.addEventListener("click", () => void load());
    place.replaceChildren(h("p", { class: "note", role: "alert" }, words.failed), h("pre", { class: "twin", tabindex: "0" }, text), retry);
    setAttribute(place, "aria-busy", "false");
  };
  const load = async (): Promise<void> => {
    const dark = isDark(place);
    if (shown.dark === dark && shown.url) return;
    shown.dark = dark;
    setAttribute(place, "aria-busy", "true");
    try {
      const blob = await fetched("svg", dark);
      const url = URL.createObjectURL(blob); // an image: nothing in it runs, and it loads nothing
      const image = h("img", { src: url, alt: [title, headOf(text)].filter(Boolean).join(". ") });
      try {
        await image.decode();
      } catch (error) {
        URL.revokeObjectURL(url);
        throw error;
      }
      if (!place.isConnected || shown.dark !== dark) return URL.revokeObjectURL(url); // it has left the page, or its colours have changed
      drop();
      Object.assign(shown, { url });
      setAttribute(place, "aria-busy", "false");
      place.replaceChildren(image);
    } catch {
      if (shown.dark === dark) fail();
    }
  };
  whileShown(place, () => void load(), drop);
  frame.node.append(place);
  frame.button(words.png, words.savePng, async () => saveFile(await fetched("png", isDark(place)), name, "png"));
  const table = dataOf(render.payload);
  if (table) {
    frame.button(words.csv, words.saveCsv, () => saveFile(csvBlob(table), name, "csv"));
    frame.node.append(dataButton(frame, words, () => gridOf(table, name, words, frame.say).node));
  }
  return frame.node;
}

/** Return whether *node* is on a dark ground, whatever made it dark: its text is light then. */
export function isDark(node: Element): boolean {
  const [red = 0, green = 0, blue = 0] = (getComputedStyle(node).color.match(/[\d.]+/g) ?? []).map(Number);
  return red * 0.3 + green * 0.59 + blue * 0.11 > 140;
}

/** Call *load* when *node* comes near the visible part and when the colours change, and *drop* when it has left the page. */
function whileShown(node: HTMLElement, load: () => void, drop: () => void): void {
  let isNear = false;
  const media = matchMedia("(prefers-color-scheme: dark)");
  const turned = (): void => void (isNear && load());
  const theme = new MutationObserver(turned); // of the element around, which a page may set at any time
  const near = new IntersectionObserver(([entry]) => {
    if (!entry?.isIntersecting || isNear) return;
    isNear = true;
    theme.observe((node.getRootNode() as ShadowRoot).host ?? document.documentElement, { attributes: true });
    load();
  }, { rootMargin: AHEAD });
  const size = new ResizeObserver(() => {
    if (node.isConnected) return;
    drop();
    near.disconnect();
    size.disconnect();
    theme.disconnect();
    media.removeEventListener("change", turned);
  });
  near.observe(node);
  size.observe(node);
  media.addEventListener("change", turned);
}
