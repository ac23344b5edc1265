/** The start screen: the agent's picture, and what people may ask first. */

import { h, icon, setAttribute, setText } from "../dom.js";
import type { AgentFace, StartPrompt } from "../talk/face.js";
import type { ExtrasOptions } from "./main.js";
import type { ExtraWords } from "./words.js";

const MOST_PROMPTS = 6;
const PICTURE = /^(https:\/\/|data:image\/)/i;
const BUBBLE = "M20 11.5a7.5 7.5 0 01-7.5 7.5c-1.2 0-2.4-.3-3.4-.8L4 20l1.8-4.9A7.5 7.5 0 1120 11.5z";

/** The element, as far as it has words and prompts of the page's own. */
type Host = Element & { readonly prompts?: readonly StartPrompt[] | null };

export interface Start {
  /** Show the name, greeting, picture and prompts of *face*; those of the page's own come before them. */
  show(face: AgentFace | null): void;
  /** Show the picture in *place*, now and when it changes. */
  dress(place: HTMLElement): void;
}

/** Return what shows the agent's face in the widget. */
export function createStart({ node, list: log, heading, greeting, greetingText, send, signal }: ExtrasOptions, words: ExtraWords): Start {
  const [large, small] = [h("div", { class: "face", part: "avatar", "aria-hidden": "true" }), h("div", { class: "face small", "aria-hidden": "true" })];
  const list = h("ul", { class: "prompts", part: "prompts", "aria-label": words.prompts });
  let shown = "";
  let [avatar, name] = ["", ""];

  greeting.prepend(large);
  greeting.append(list);
  list.addEventListener("click", (event) => {
    const button = (event.target as Element).closest<HTMLElement>("[data-prompt]");
    if (!button) return;
    send(button.dataset["prompt"] ?? "");
    node.querySelector("textarea")?.focus(); // the button goes
  }, { signal });

  const dress = (place: HTMLElement): void => {
    setAttribute(place, "data-agent", "");
    if (avatar) picture(place, avatar, name);
  };
  const show = (face: AgentFace | null): void => {
    const root = node.getRootNode();
    const host: Host | null = root instanceof ShadowRoot ? root.host : null;
    if (face?.title && !host?.hasAttribute("heading")) {
      setText(heading, face.title);
      setAttribute(node, "aria-label", face.title);
    }
    if (face?.greeting && !host?.hasAttribute("greeting")) setText(greetingText, face.greeting);
    const prompts = (host?.prompts ?? face?.prompts ?? []).filter(isPrompt).slice(0, MOST_PROMPTS);
    [avatar, name] = [face?.avatar ?? "", heading.textContent];
    const stamp = JSON.stringify([prompts, avatar, name]);
    if (stamp === shown) return;
    shown = stamp;
    picture(large, avatar, name);
    picture(small, avatar, name);
    log.querySelectorAll<HTMLElement>("[data-agent]").forEach(dress);
    if (avatar) node.querySelector("header")?.prepend(small);
    else small.remove();
    list.hidden = !prompts.length;
    list.replaceChildren(...prompts.map(promptNode));
  };
  return { show, dress };
}

/** A page may give anything. */
function isPrompt(value: StartPrompt | null): value is StartPrompt {
  return typeof value?.label === "string" && typeof value.prompt === "string" && value.prompt.trim() !== "";
}

function promptNode({ label, prompt, icon: sign }: StartPrompt): HTMLElement {
  const mark = sign ? h("span", { class: "prompt-icon", "aria-hidden": "true" }, signs(sign)) : null;
  return h("li", {}, h("button", { type: "button", class: "prompt", part: "prompt", "data-prompt": prompt, title: prompt === label ? null : prompt }, mark, h("span", { dir: "auto" }, label)));
}

/** Show *avatar* in *place*: a picture, one or two characters, or else a sign for a conversation. */
function picture(place: HTMLElement, avatar: string, name: string): void {
  const sign = (): Node | string => (PICTURE.test(avatar) ? [...name.trim()][0] : signs(avatar)) || icon(BUBBLE);
  if (!PICTURE.test(avatar)) return place.replaceChildren(sign());
  const image = h("img", { alt: "", referrerpolicy: "no-referrer", decoding: "async" });
  image.addEventListener("error", () => place.replaceChildren(sign()), { once: true });
  image.src = avatar;
  place.replaceChildren(image);
}

/** Return the first two characters of *text*, as people count them. */
function signs(text: string): string {
  if (!("Segmenter" in Intl)) return [...text].slice(0, 2).join("");
  return [...new Intl.Segmenter().segment(text)].slice(0, 2).map(({ segment }) => segment).join("");
}
