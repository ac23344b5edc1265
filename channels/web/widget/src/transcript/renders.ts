/** What tools show to people, as nodes: by kind, and the text of a kind that has no renderer here. */

import { h } from "../dom.js";
import type { Render } from "../log/state.js";
import type { Scene } from "./scene.js";

export type Drawing = Pick<Scene, "strings" | "request" | "load" | "offers">;
export type Renderer = (render: Render, drawing: Drawing) => HTMLElement;

export const RENDERERS: ReadonlyMap<string, Renderer> = new Map([["table", later], ["chart", later], ["suggestions", unsaid]]);

/** Return *render* as its kind is drawn, else as its title and text. */
export function drawn(render: Render, drawing: Drawing, renderers: ReadonlyMap<string, Renderer> = RENDERERS): HTMLElement {
  return (renderers.get(render.kind) ?? textOnly)(render, drawing);
}

/** Return *render* as its text, until what draws it is there, which is not read out once more. */
function later(render: Render, { strings, request, load }: Drawing): HTMLElement {
  const host = h("div", { "aria-live": "off" }, textOnly(render));
  if (render.payload["plain"]) load("charts").catch(() => undefined); // beside the other, which asks for it once more
  load("renders").then(({ show }) => show(host, render, { words: strings.drawn, locale: strings.locale, request, load })).catch(() => undefined); // the text stays
  return host;
}

/** What could be asked next is under the answer, for the person who asks; others read it here. */
function unsaid(render: Render, { offers }: Drawing): HTMLElement {
  return offers ? h("span", { hidden: true }) : textOnly(render);
}

export function textOnly({ kind, title, text }: Render): HTMLElement {
  const body = h("pre", { class: "render", tabindex: "0", "aria-label": title ?? kind }, text);
  return title ? h("figure", {}, h("figcaption", {}, title), body) : body;
}
