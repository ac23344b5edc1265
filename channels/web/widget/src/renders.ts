/** What tools show to people, as nodes: by kind, and the text of a kind that has no renderer here. */

import type { Request } from "./client.js";
import { h } from "./dom.js";
import type { Render } from "./state.js";
import type { Strings } from "./strings.js";

/** The address, beside this script, of what draws tables and charts: with its hash, so that no two versions meet. */
declare const DRAWN_SCRIPT: string;

type Drawn = typeof import("./drawn/main.js");

export interface Drawing {
  readonly strings: Strings;
  readonly request: Request;
  readonly load: () => Promise<Pick<Drawn, "show">>;
}

export type Renderer = (render: Render, drawing: Drawing) => HTMLElement;
export type Draw = (render: Render) => HTMLElement;

export const RENDERERS: ReadonlyMap<string, Renderer> = new Map([["table", later], ["chart", later]]);

/** Load what draws tables and charts, once. */
export function loadDrawn(): Promise<Drawn> {
  return import(new URL(DRAWN_SCRIPT, import.meta.url).href) as Promise<Drawn>;
}

/** Return what draws a render as its kind is drawn, else as its title and text. */
export function drawer(drawing: Drawing, renderers: ReadonlyMap<string, Renderer> = RENDERERS): Draw {
  return (render) => (renderers.get(render.kind) ?? textOnly)(render, drawing);
}

/** Return *render* as its text, until what draws it is there, which is not read out once more. */
function later(render: Render, { strings, request, load }: Drawing): HTMLElement {
  const host = h("div", { "aria-live": "off" }, textOnly(render));
  load().then(({ show }) => show(host, render, { words: strings.drawn, request })).catch(() => undefined); // the text stays
  return host;
}

export function textOnly({ kind, title, text }: Render): HTMLElement {
  const body = h("pre", { class: "render", tabindex: "0", "aria-label": title ?? kind }, text);
  return title ? h("figure", {}, h("figcaption", {}, title), body) : body;
}
