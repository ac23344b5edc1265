/** What tools show to people, as nodes: by kind, and the text of a kind that has no renderer here. */

import { h } from "./dom.js";
import type { Render } from "./state.js";

export type Renderer = (render: Render) => HTMLElement;

export const RENDERERS: ReadonlyMap<string, Renderer> = new Map();

/** Return *render* as its kind is drawn, else its title and text. */
export function renderNode(render: Render, renderers: ReadonlyMap<string, Renderer> = RENDERERS): HTMLElement {
  return (renderers.get(render.kind) ?? textOnly)(render);
}

function textOnly({ kind, title, text }: Render): HTMLElement {
  const body = h("pre", { class: "render", tabindex: "0", "aria-label": title ?? kind }, text);
  return title ? h("figure", {}, h("figcaption", {}, title), body) : body;
}
