/** Where a person writes, sends and stops. */

import { h, icon, setAttribute } from "../dom.js";
import type { Load } from "../lazy.js";
import type { Attachments } from "../files/main.js";
import type { Access, FileRules, SentFile } from "../wire/upload.js";
import type { Strings } from "../words/strings.js";

export interface Composer {
  readonly node: HTMLElement;
  update(state: { readonly canStop: boolean; readonly stopping: boolean }): void;
  /** Let files be attached by *rules*, chosen, pasted, or dropped on *field*; null: none may be. */
  attach(rules: FileRules | null, field: HTMLElement): void;
  /** Show *text* and *files*, which are on the server, in the place of what is written and attached. */
  write(text: string, files: readonly SentFile[]): void;
  /** Put back what was not taken. */
  restore(text: string, files: readonly SentFile[]): void;
  /** Return whether there is something that is not sent. */
  isTyped(): boolean;
  placeholder(text: string): void;
  focus(): void;
}

export interface ComposerOptions {
  readonly strings: Strings;
  readonly access: Access;
  readonly load: Load;
  /** Ends the listeners. */
  readonly signal: AbortSignal;
  send(text: string, files: readonly SentFile[]): void;
  stop(): void;
  /** Called with what is written, whenever the person changes it. */
  typed?(text: string): void;
  /** Called with the attached files that are on the server, whenever they are others. */
  attached?(files: readonly SentFile[]): void;
}

const UP = "M12 19V5M5 12l7-7 7 7";
const SQUARE = "M7 7h10v10H7z";
const TALLEST = 200; // pixels; the text scrolls beyond

/** Return a composer; Enter sends, Shift+Enter breaks the line, Escape stops. */
export function createComposer(options: ComposerOptions): Composer {
  const { strings, load, signal } = options;
  const area = h("textarea", { rows: "1", dir: "auto", part: "input", "aria-label": strings.message, placeholder: strings.placeholder, enterkeyhint: "send" });
  const send = h("button", { type: "submit", class: "round send", part: "send", "aria-label": strings.send, title: strings.send }, icon(UP));
  const stop = h("button", { type: "button", class: "round stop", part: "stop", "aria-label": strings.stop, title: strings.stop }, icon(SQUARE));
  const node = h("form", { class: "composer", part: "composer" }, area, stop, send);
  let allowed = "null";
  let attached: Attachments | null = null;
  /** What is attached, as far as it is on the server; it waits here while files cannot be attached. */
  let files: readonly SentFile[] = [];
  let canStop = false;

  const isTyped = (): boolean => area.value.trim() !== "" || !!attached?.count;
  const refresh = (): void => {
    const empty = !isTyped();
    send.disabled = empty;
    send.hidden = canStop && empty;
    stop.hidden = !canStop;
  };
  const changed = (): void => {
    refresh();
    const now = attached?.sent() ?? files;
    if (now.map(({ file }) => file).join() !== files.map(({ file }) => file).join()) options.attached?.((files = now));
  };
  const grow = (): void => {
    area.style.blockSize = "auto";
    if (area.scrollHeight) area.style.blockSize = `${Math.min(TALLEST, area.scrollHeight)}px`; // it has none while it is not on the screen
    refresh();
  };
  const submit = (): void => {
    const text = area.value.trim();
    if (!isTyped()) return;
    const taken = attached ? attached.take() : [];
    if (!taken) return; // the tray says why
    area.value = "";
    grow();
    options.typed?.("");
    options.send(text, taken);
  };

  const listen = { signal };
  node.addEventListener("submit", (event) => (event.preventDefault(), submit(), area.focus()), listen);
  stop.addEventListener("click", () => (options.stop(), area.focus()), listen);
  area.addEventListener("input", () => (grow(), attached?.edited(), options.typed?.(area.value)), listen);
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
    attach(rules, field) {
      if (allowed === JSON.stringify(rules)) return;
      allowed = JSON.stringify(rules);
      attached?.end();
      attached = null;
      if (!rules) return;
      const wanted = allowed;
      load("files").then((chunk) => {
        if (wanted !== allowed || signal.aborted) return;
        attached = chunk.attachments(node, { ...options, rules, field, changed, ready: submit });
        node.prepend(attached.tray, attached.button);
        if (files.length) attached.replace(files);
      }).catch(() => undefined); // without it messages go out without files
    },
    write(text, given) {
      area.value = text;
      files = given;
      attached?.replace(given);
      grow();
    },
    restore(text, given) {
      area.value = [text, area.value].filter(Boolean).join("\n\n");
      if (attached) attached.restore(given);
      else if (given.length) options.attached?.((files = [...files, ...given]));
      options.typed?.(area.value);
      grow();
    },
    isTyped,
    placeholder: (text) => (area.placeholder = text),
    focus: () => area.focus(),
  };
}
