/** How files come into the composer: by its button, by paste and by drop. */

import { h, icon, setAttribute } from "../dom.js";
import { merged } from "../words/merge.js";
import { createTray, type Tray, type TrayOptions } from "./trayview.js";
import { FILES } from "./words.js";

export interface AttachmentOptions extends TrayOptions {
  /** Where files may be dropped and pasted. */
  readonly field: HTMLElement;
}

export interface Attachments extends Pick<Tray, "restore" | "replace" | "sent" | "edited" | "take" | "count"> {
  readonly button: HTMLElement;
  readonly tray: HTMLElement;
  /** Attach no more, and forget what is there. */
  end(): void;
}

const CLIP = "M20 11.5l-8 8a5 5 0 01-7-7l8.5-8.5a3.3 3.3 0 014.7 4.7L9.7 17.2a1.7 1.7 0 01-2.4-2.4L15 7";

/** Return the button and the tray. */
export function createAttachments({ field, ...options }: AttachmentOptions): Attachments {
  const words = merged(FILES, options.strings.files);
  const life = new AbortController();
  options.signal.addEventListener("abort", () => life.abort(), { once: true, signal: life.signal });
  const { signal } = life;
  const accept = options.rules.accept.join(",");
  const input = h("input", { type: "file", multiple: true, hidden: true, tabindex: "-1", accept });
  const button = h("button", { type: "button", class: "round attach", "aria-label": words.attach, title: words.attach }, icon(CLIP), input);
  const node = h("div", { class: "tray", hidden: true });
  const tray = createTray(node, { ...options, signal });

  const add = (files: FileList | undefined): boolean => {
    const chosen = [...(files ?? [])]; // a list that the browser empties
    if (chosen.length) tray.add(chosen);
    return chosen.length > 0;
  };
  const hasFiles = (event: DragEvent): boolean => event.dataTransfer?.types.includes("Files") ?? false;
  const mark = (shown: boolean): void => setAttribute(field, "data-drop", shown && words.drop);
  const over = (event: DragEvent): void => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    mark(true);
  };
  const out = (event: DragEvent): void => {
    if (!field.contains(event.relatedTarget as Node | null)) mark(false);
  };
  const drop = (event: DragEvent): void => {
    mark(false);
    if (hasFiles(event)) event.preventDefault();
    add(event.dataTransfer?.files);
  };
  /** Spreadsheets and word processors put a picture of the text beside it: then the text is meant. */
  const pasted = (event: ClipboardEvent): void => {
    const data = event.clipboardData;
    if (!data?.types.includes("text/plain") && add(data?.files)) event.preventDefault();
  };
  button.addEventListener("click", (event) => event.target !== input && input.click(), { signal });
  input.addEventListener("change", () => (add(input.files ?? undefined), (input.value = "")), { signal });
  field.addEventListener("dragenter", over, { signal });
  field.addEventListener("dragover", over, { signal });
  field.addEventListener("dragleave", out, { signal });
  field.addEventListener("drop", drop, { signal });
  field.addEventListener("paste", pasted, { signal });

  return {
    button,
    tray: node,
    restore: tray.restore,
    replace: tray.replace,
    sent: tray.sent,
    edited: tray.edited,
    take: tray.take,
    get count() {
      return tray.count;
    },
    end() {
      life.abort();
      button.remove();
      node.remove();
    },
  };
}
