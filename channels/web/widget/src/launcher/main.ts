/** The chunk of the launcher: a bubble in a corner of the page, and the panel with the conversation that it opens. */

import { h, icon, setAttribute } from "../dom.js";
import type { View } from "../frame/view.js";
import { activeRun } from "../log/state.js";
import type { Conversation } from "../talk/conversation.js";
import { merged } from "../words/merge.js";
import type { Strings } from "../words/strings.js";
import css from "./launcher.css";
import { LAUNCHER } from "./words.js";

export interface Launcher {
  /** Show the panel, or hide it: the element's attribute `open` has changed. */
  toggle(isOpen: boolean): void;
  conversation(now: Conversation): void;
}

export interface LauncherOptions {
  readonly strings: Strings;
  readonly signal: AbortSignal;
  /** Begin the conversation, if it is not; its view, while the element is on a page. */
  begun(): View | undefined;
  /** Ask the element to be open or closed. */
  show(isOpen: boolean): void;
}

const BUBBLE = "M21 12a8 8 0 01-8 8H4l2-3.2A8 8 0 1121 12z";
const CROSS = "M6 6l12 12M18 6L6 18";
/** Where the panel covers the page, and what is beneath it cannot be reached. */
const PHONE = "(max-width: 480px), (max-height: 420px)";
const MOST = 99;

/** Return the launcher of *host*, in its shadow root; it shows nothing of the conversation before that is opened. */
export function launcher(host: HTMLElement, { strings, signal, begun, show }: LauncherOptions): Launcher {
  const words = merged(LAUNCHER, strings.launcher);
  const root = host.shadowRoot as ShadowRoot;
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(css);
  root.adoptedStyleSheets = [...root.adoptedStyleSheets, sheet];
  const badge = h("span", { class: "badge", part: "badge", "aria-hidden": "true", hidden: true });
  const bubble = h("button", { type: "button", class: "bubble-button", part: "launcher", "aria-haspopup": "dialog", "aria-controls": "panel" },
    icon(BUBBLE), icon(CROSS), badge);
  const cross = h("button", { type: "button", class: "renew close", "aria-label": words.close, title: words.close }, icon(CROSS));
  const panel = h("dialog", { id: "panel", class: "panel", part: "panel" });
  root.replaceChildren(bubble, panel);

  const phone = matchMedia(PHONE);
  let now: Conversation | null = null;
  let before: Element | null = null;
  let open = false;

  const label = (): void => {
    const count = now?.unread ?? 0;
    const news = count === 1 ? words.one : words.some.replace("{count}", String(count));
    badge.hidden = count === 0 || open;
    badge.textContent = count > MOST ? `${MOST}+` : String(count);
    const name = open ? words.close : count ? `${words.open}, ${news}` : words.open;
    for (const attribute of ["aria-label", "title"]) setAttribute(bubble, attribute, name);
    setAttribute(bubble, "aria-expanded", String(open));
  };
  /** A dialog over the page on phones, beside it elsewhere; it keeps what it shows, and where the focus is. */
  const present = (): void => {
    const focused = root.activeElement as HTMLElement | null;
    panel.close();
    setAttribute(panel, "aria-label", panel.querySelector("h2")?.textContent || strings.heading);
    if (phone.matches) panel.showModal();
    else panel.show();
    focused?.focus();
  };
  const fill = (): void => {
    const view = begun();
    if (!view || panel.contains(view.node)) return;
    panel.replaceChildren(view.node);
    view.node.querySelector("header")?.append(cross);
  };

  const listen = { signal };
  bubble.addEventListener("click", () => show(!open), listen);
  cross.addEventListener("click", () => show(false), listen);
  panel.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.isComposing) return;
    // While an answer is written the first Escape stops it: the panel stays, and so it does when something inside took the key.
    const isTaken = event.defaultPrevented || (now !== null && activeRun(now.view) !== undefined);
    event.preventDefault();
    if (!isTaken) show(false);
  }, listen);
  panel.addEventListener("cancel", (event) => (event.preventDefault(), show(false)), listen);
  phone.addEventListener("change", () => open && present(), listen);
  signal.addEventListener("abort", () => {
    root.adoptedStyleSheets = root.adoptedStyleSheets.filter((each) => each !== sheet);
  }, { once: true });
  label();

  return {
    toggle(isOpen) {
      if (isOpen === open) return;
      open = isOpen;
      label();
      if (isOpen) {
        before = document.activeElement;
        fill();
        present();
        begun()?.focus();
      } else {
        const held = panel.contains(root.activeElement);
        panel.close();
        if (held || root.activeElement === null) returnFocus(before, host, bubble);
      }
    },
    conversation(next) {
      now = next;
      label();
    },
  };
}

/** Give the focus back to what had it before the panel was opened; the bubble where that is gone, or was the bubble. */
function returnFocus(before: Element | null, host: HTMLElement, bubble: HTMLElement): void {
  const isOf = before instanceof HTMLElement && before.isConnected && before !== host && before !== document.body;
  (isOf ? before : bubble).focus();
}
