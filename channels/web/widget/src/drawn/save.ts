/** What leaves the page: the clipboard, and files. */

import { htmlOf, tsvOf } from "./format.js";
import type { DataTable } from "./payload.js";

const LASTS = 10_000; // milliseconds until a file is surely being saved

/** Copy *table*, as cells for programs that take them. */
export async function copyTable(table: DataTable): Promise<void> {
  const texts = { "text/plain": tsvOf(table), "text/html": htmlOf(table) };
  if (typeof ClipboardItem === "undefined") return navigator.clipboard.writeText(texts["text/plain"]);
  const item = Object.fromEntries(Object.entries(texts).map(([type, text]) => [type, new Blob([text], { type })]));
  return navigator.clipboard.write([new ClipboardItem(item)]);
}

/** Save *blob* as a file called *title* with the ending *kind*. */
export function saveFile(blob: Blob, title: string, kind: string): void {
  const url = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = url;
  link.download = `${fileName(title)}.${kind}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), LASTS);
}

/** Return *title* as the name of a file on any system. */
export function fileName(title: string): string {
  const kept = title.normalize("NFC").replace(/[^\p{L}\p{M}\p{N}]+/gu, "-").replace(/^-+|-+$/g, "");
  return [...kept].slice(0, 60).join("") || "data";
}
