/** The tray: the files of the message that is being written, as nodes, and their way to the server. */

import { h, icon, setAttribute, setChildren, setText } from "../dom.js";
import { asProblem, isPassing } from "../wire/problem.js";
import { upload, type Access, type FileRules, type SentFile } from "../wire/upload.js";
import { merged } from "../words/merge.js";
import type { Strings } from "../words/strings.js";
import { sizeOf } from "./size.js";
import { chosen, returned, sentence, stateOf, type Attached } from "./tray.js";
import { FILES, type FileWords } from "./words.js";

export interface TrayOptions {
  readonly rules: FileRules;
  readonly access: Access;
  readonly strings: Strings;
  /** Called when there is more or less to send. */
  readonly changed: () => void;
  /** Called when what `take` had to refuse because of uploads is ready, and nothing was changed meanwhile. */
  readonly ready?: () => void;
  readonly signal: AbortSignal;
}

export interface Tray {
  /** Add files, which go to the server at once. */
  add(files: Iterable<File>): void;
  /** Add files that are on the server already. */
  restore(files: readonly SentFile[]): void;
  /** Forget what is there, uploads cancelled, and hold *files*, which are on the server, in its place. */
  replace(files: readonly SentFile[]): void;
  /** Return what is on the server by now. */
  sent(): readonly SentFile[];
  /** The message has changed: it does not go out by itself when the files are there. */
  edited(): void;
  /** Return what is ready and forget it; null, and a sentence is said, while something is not. */
  take(): readonly SentFile[] | null;
  readonly count: number;
}

const CROSS = "M6 6l12 12M18 6L6 18";
const AGAIN = "M4 12a8 8 0 108-8H6M6 4l3-3M6 4l3 3";
const PAGE = "M6 3h8l4 4v14H6zM14 3v4h4";
const MOST_AT_ONCE = 3;

/** Fill *node* with the files of the message that is being written. */
export function createTray(node: HTMLElement, options: TrayOptions): Tray {
  const { rules, access, strings, signal } = options;
  const words = merged(FILES, strings.files);
  const list = h("ul", { class: "files", "aria-label": words.list });
  const said = h("p", { class: "files-note", role: "status" });
  const rows = new Map<number, Row>();
  const going = new Map<number, AbortController>();
  let all: readonly Attached[] = [];
  let keys = 0;
  let note = "";
  let isFault = false;
  /** The message goes out when the files are there. */
  let awaited = false;
  node.replaceChildren(list, said);

  const paint = (sentence = note, isBad = sentence === note && isFault): void => {
    [note, isFault] = [sentence, isBad];
    for (const [key, row] of rows) if (!all.some((each) => each.key === key)) rows.delete((row.end(), key));
    setChildren(list, all.map((each) => {
      const row = rows.get(each.key) ?? rowOf(each, words, strings.locale, { remove, retry });
      rows.set(each.key, row);
      row.update(each);
      return row.node;
    }));
    setText(said, note);
    said.classList.toggle("fault", isFault);
    node.hidden = !all.length && !note;
    options.changed();
  };
  const sent = (): readonly SentFile[] => all.flatMap((each) => each.sent ?? []);
  const change = (key: number, changes: Partial<Attached>, sentence?: string): void => {
    all = all.map((each) => (each.key === key ? { ...each, ...changes } : each));
    paint(sentence, sentence === undefined ? undefined : typeof changes.fault === "string");
  };
  const remove = (key: number): void => {
    going.get(key)?.abort();
    const at = all.findIndex((each) => each.key === key);
    all = all.filter((each) => each.key !== key);
    awaited = false;
    paint("");
    (list.children[Math.min(at, all.length - 1)]?.querySelector<HTMLElement>("button:last-of-type") ?? null)?.focus();
    begin();
  };
  const retry = (key: number): void => {
    awaited = false;
    change(key, { fault: null, retryable: false, part: 0 }, "");
    begin();
  };
  const begin = (): void => {
    for (const each of all) {
      if (going.size >= MOST_AT_ONCE) return;
      if (each.file && !each.sent && each.fault === null && !going.has(each.key)) void send(each.key, each.file);
    }
  };
  const send = async (key: number, file: File): Promise<void> => {
    const controller = new AbortController();
    const end = (): void => controller.abort();
    signal.addEventListener("abort", end, { once: true, signal: controller.signal });
    going.set(key, controller);
    try {
      const stored = await upload(access, file, (part) => change(key, { part }), controller.signal);
      if (controller.signal.aborted) return;
      change(key, { sent: stored, part: 1 }, awaited ? words.wait : words.ready.replace("{name}", file.name));
      if (!awaited || stateOf(all, words).blocked) return;
      awaited = false;
      options.ready?.();
    } catch (error) {
      if (controller.signal.aborted) return;
      const problem = asProblem(error);
      const fault = sentence(problem, rules, words, strings.locale);
      awaited = false;
      change(key, { fault, retryable: isPassing(problem) }, `${file.name}: ${fault}`);
    } finally {
      going.delete(key);
      controller.abort(); // ends the listener
      begin();
    }
  };
  signal.addEventListener("abort", () => rows.forEach((row) => row.end()), { once: true });

  return {
    get count() {
      return all.length;
    },
    add(files) {
      const wanted = [...files];
      const room = Math.max(0, rules.max_count - all.length);
      const added = wanted.slice(0, room).map((file) => chosen((keys += 1), file, rules, words, strings.locale));
      const faults = added.flatMap(({ name, fault }) => (fault === null ? [] : [`${name}: ${fault}`]));
      all = [...all, ...added];
      awaited = false;
      paint([...faults, ...(wanted.length > room ? [words.many.replace("{count}", String(rules.max_count))] : [])].join(" "), true);
      begin();
    },
    restore(files) {
      all = [...all, ...files.map((each) => returned((keys += 1), each))];
      awaited = false;
      paint("");
    },
    replace(files) {
      for (const controller of going.values()) controller.abort();
      all = files.map((each) => returned((keys += 1), each));
      awaited = false;
      paint("");
    },
    sent,
    edited() {
      if (awaited) paint("");
      awaited = false;
    },
    take() {
      const { blocked } = stateOf(all, words);
      if (blocked) {
        awaited = !all.some(({ fault }) => fault !== null);
        paint(blocked, !awaited);
        return null;
      }
      const ready = sent();
      all = [];
      paint("");
      return ready;
    },
  };
}

interface Row {
  readonly node: HTMLElement;
  update(attached: Attached): void;
  end(): void;
}

function rowOf({ key, name, size, file }: Attached, words: FileWords, locale: string, does: { remove(key: number): void; retry(key: number): void }): Row {
  const address = file?.type.startsWith("image/") ? URL.createObjectURL(file) : null;
  const preview = h("span", { class: "files-preview", "aria-hidden": "true" }, icon(PAGE));
  const state = h("span", { class: "files-state" });
  const bar = h("progress", { max: "1", "aria-label": name });
  const cross = h("button", { type: "button", class: "files-button" }, icon(CROSS));
  const again = h("button", { type: "button", class: "files-button", "aria-label": words.retry.replace("{name}", name) }, icon(AGAIN));
  const node = h("li", { class: "files-item" }, preview, h("span", { class: "files-text" }, h("bdi", { class: "files-name" }, name), state), again, cross);
  cross.addEventListener("click", () => does.remove(key));
  again.addEventListener("click", () => does.retry(key));
  if (address) {
    const image = h("img", { alt: "", src: address });
    image.onload = () => preview.replaceChildren(image);
  }
  return {
    node,
    end: () => address && URL.revokeObjectURL(address),
    update({ sent, part, fault, retryable }) {
      const isGoing = !sent && fault === null;
      setAttribute(node, "data-state", fault !== null ? "faulty" : sent ? "ready" : "going");
      setAttribute(cross, "aria-label", (isGoing ? words.cancel : words.remove).replace("{name}", name));
      again.hidden = !retryable;
      bar.value = part;
      setText(state, fault ?? (isGoing && part >= 1 ? words.checking : sizeOf(size, locale)));
      setAttribute(node, "aria-busy", isGoing ? "true" : null);
      if (isGoing !== (bar.parentNode !== null)) isGoing ? node.append(bar) : bar.remove();
    },
  };
}
