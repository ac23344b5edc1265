/** Where a person writes, sends and stops. */

import { h, icon, setAttribute } from "../dom.js";
import type { Strings } from "../words/strings.js";

export interface Composer {
  readonly node: HTMLElement;
  update(state: { readonly canStop: boolean; readonly stopping: boolean }): void;
  placeholder(text: string): void;
  focus(): void;
}

export interface ComposerActions {
  send(text: string): void;
  stop(): void;
}

const UP = "M12 19V5M5 12l7-7 7 7";
const SQUARE = "M7 7h10v10H7z";
const TALLEST = 200; // pixels; the text scrolls beyond

/** Return a composer; Enter sends, Shift+Enter breaks the line, Escape stops. */
export function createComposer(strings: Strings, actions: ComposerActions, signal: AbortSignal): Composer {
  const area = h("textarea", { rows: "1", "aria-label": strings.message, placeholder: strings.placeholder, enterkeyhint: "send" });
  const send = h("button", { type: "submit", class: "round send", "aria-label": strings.send, title: strings.send }, icon(UP));
  const stop = h("button", { type: "button", class: "round stop", "aria-label": strings.stop, title: strings.stop }, icon(SQUARE));
  const node = h("form", { class: "composer" }, area, stop, send);
  let canStop = false;

  const refresh = (): void => {
    const empty = area.value.trim() === "";
    send.disabled = empty;
    send.hidden = canStop && empty;
    stop.hidden = !canStop;
  };
  const grow = (): void => {
    area.style.blockSize = "auto";
    area.style.blockSize = `${Math.min(TALLEST, area.scrollHeight)}px`;
    refresh();
  };
  const submit = (): void => {
    const text = area.value.trim();
    if (!text) return;
    area.value = "";
    grow();
    actions.send(text);
  };

  const listen = { signal };
  node.addEventListener("submit", (event) => (event.preventDefault(), submit(), area.focus()), listen);
  stop.addEventListener("click", () => (actions.stop(), area.focus()), listen);
  area.addEventListener("input", grow, listen);
  area.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    submit();
  }, listen);
  refresh();

  return {
    node,
    update({ canStop: may, stopping }) {
      canStop = may;
      stop.disabled = stopping;
      setAttribute(stop, "aria-label", stopping ? strings.stopping : strings.stop);
      refresh();
    },
    placeholder: (text) => (area.placeholder = text),
    focus: () => area.focus(),
  };
}
