/** What the bars under questions and answers are made of: buttons with a picture, times, and what is said aloud. */

import { h, icon } from "../dom.js";

export const PICTURES = {
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  done: "M5 13l4 4L19 7",
  good: "M7 10v12M15 5.9L14 10h5.8a2 2 0 011.9 2.6l-2.3 8a2 2 0 01-1.9 1.4H4a2 2 0 01-2-2v-8a2 2 0 012-2h2.8a2 2 0 001.7-1.1L12 2a3.1 3.1 0 013 3.9z",
  bad: "M17 14V2M9 18.1L10 14H4.2a2 2 0 01-1.9-2.6l2.3-8A2 2 0 016.5 2H20a2 2 0 012 2v8a2 2 0 01-2 2h-2.8a2 2 0 00-1.7 1.1L12 22a3.1 3.1 0 01-3-3.9z",
  again: "M3 12a9 9 0 019-9 9.8 9.8 0 016.7 2.7L21 8M21 3v5h-5M21 12a9 9 0 01-9 9 9.8 9.8 0 01-6.7-2.7L3 16M8 16H3v5",
  edit: "M12 20h9M16.5 3.5a2.1 2.1 0 013 3L7 19l-4 1 1-4z",
  file: "M14 3H6v18h12V7zM14 3v4h4",
  close: "M6 6l12 12M18 6L6 18",
} as const;

const COPIED = 1_500; // milliseconds for which a button shows that it has copied

/** Return a button called *name* that shows a picture and does *click*. */
export function pictured(name: string, path: string, click: (button: HTMLButtonElement) => void): HTMLButtonElement {
  const button = h("button", { type: "button", class: "act", "aria-label": name, title: name }, icon(path));
  button.addEventListener("click", () => click(button));
  return button;
}

/** Return a button that copies what *source* gives, *said* to those who hear the page. */
export function copyButton(name: string, source: () => Copied, say: (done: boolean) => void): HTMLButtonElement {
  return pictured(name, PICTURES.copy, (button) => {
    copied(source()).then(() => {
      button.replaceChildren(icon(PICTURES.done));
      setTimeout(() => button.replaceChildren(icon(PICTURES.copy)), COPIED);
      say(true);
    }, () => say(false));
  });
}

/** A text for the clipboard, and the same for programs that take more than letters. */
export interface Copied {
  readonly text: string;
  readonly html?: string;
}

async function copied({ text, html }: Copied): Promise<void> {
  if (html && typeof ClipboardItem !== "undefined") {
    const item = { "text/plain": new Blob([text], { type: "text/plain" }), "text/html": new Blob([html], { type: "text/html" }) };
    const isDone = await navigator.clipboard.write([new ClipboardItem(item)]).then(() => true, () => false);
    if (isDone) return;
  }
  await navigator.clipboard.writeText(text);
}

/** Return *time*, in milliseconds, as the reader's clock shows it and *locale* writes it; null for none. */
export function timeNode(time: number, locale: string): HTMLElement | null {
  if (!time) return null;
  const date = new Date(time);
  const full = date.toLocaleString(locale, { dateStyle: "full", timeStyle: "short" });
  return h("time", { datetime: date.toISOString(), title: full }, date.toLocaleTimeString(locale, { timeStyle: "short" }));
}
