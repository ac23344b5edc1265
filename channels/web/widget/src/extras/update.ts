/** The quiet line of a page whose server has a newer version of the widget, and its reload while it is idle. */

import { h } from "../dom.js";
import { isBusy } from "../log/state.js";
import type { Conversation } from "../talk/conversation.js";
import type { ExtrasOptions } from "./main.js";
import type { ExtraWords } from "./words.js";

const IDLE = 60_000; // milliseconds without a key or a click
const CHECK = 5_000;

/**
 * Return what notices a newer version; *say* announces it.
 *
 * The page has `parley:update`, and does as it likes with `preventDefault`. With `update="reload"` on the element the page is reloaded
 * when it is not looked at or used, and nothing would be lost: no answer is written, nothing is typed, nothing is on its way.
 */
export function createUpdate({ node, build, isTyped, signal }: ExtrasOptions, words: ExtraWords, say: (text: string) => void): (conversation: Conversation) => void {
  let first: string | null = null;
  let done = false;
  let now: Conversation | null = null;
  let used = Date.now();

  const reloads = (): boolean => {
    const root = node.getRootNode();
    return root instanceof ShadowRoot && root.host.getAttribute("update") === "reload";
  };
  const isIdle = (): boolean => {
    const free = now !== null && !now.outbox.length && !now.view.runs.some(isBusy) && now.link !== "reconnecting" && !isTyped();
    return free && (document.hidden || Date.now() - used > IDLE);
  };
  const offer = (newer: string): void => {
    done = true;
    const event = new CustomEvent("parley:update", { detail: { build: newer }, bubbles: true, composed: true, cancelable: true });
    if (!node.dispatchEvent(event)) return;
    const button = h("button", { type: "button", class: "quiet" }, words.reload);
    button.addEventListener("click", () => location.reload(), { signal });
    node.querySelector(".banner")?.after(h("div", { class: "banner update", part: "update", "data-tone": "info" }, h("span", {}, words.update), button));
    say(words.update);
    if (!reloads()) return;
    for (const name of ["keydown", "pointerdown"]) addEventListener(name, () => (used = Date.now()), { signal, passive: true });
    const timer = setInterval(() => {
      if (!isIdle()) return;
      clearInterval(timer);
      location.reload();
    }, CHECK);
    signal.addEventListener("abort", () => clearInterval(timer), { once: true });
  };
  return (conversation) => {
    now = conversation;
    const current = conversation.agent?.build;
    if (done || !current) return;
    first ??= current;
    // A page that pins a version decides itself when to take another, unless it is made for the version that there is.
    if (import.meta.url.includes(`/${build}/`) && !reloads()) return;
    // A copy that was another from the start, on a host of the page's own, would be the same after a reload.
    if (first === build && current !== build) offer(current);
  };
}
