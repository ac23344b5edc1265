/** The files of the message that is being written: a pure list, and the moves over it. */

import type { Problem } from "../wire/problem.js";
import type { FileRules, SentFile } from "../wire/upload.js";
import { sizeOf } from "./size.js";
import type { FileWords } from "./words.js";

export interface Attached {
  readonly key: number;
  readonly name: string;
  readonly size: number;
  /** What was chosen here; null for a file that is on the server already and came back with its message. */
  readonly file: File | null;
  readonly sent: SentFile | null;
  /** How much of it has gone out, 0 to 1. */
  readonly part: number;
  /** Why it cannot be sent; null while nothing is wrong. */
  readonly fault: string | null;
  /** Another try may succeed. */
  readonly retryable: boolean;
}

/** Return the file *key* before it has gone anywhere, with what is wrong with it by *rules*. */
export function chosen(key: number, file: File, rules: FileRules, words: FileWords, locale: string): Attached {
  const fault = faultOf(file, rules, words, locale);
  return { key, name: file.name, size: file.size, file, sent: null, part: 0, fault, retryable: false };
}

/** Return a file that is on the server. */
export function returned(key: number, sent: SentFile): Attached {
  return { key, name: sent.name, size: sent.size, file: null, sent, part: 1, fault: null, retryable: false };
}

/** The server looks at what is in a file; here only what no server of ours would take is kept from being sent for nothing. */
function faultOf({ size, type }: File, { max_bytes, accept }: FileRules, words: FileWords, locale: string): string | null {
  if (size === 0) return words.empty;
  if (size > max_bytes) return words.large.replace("{most}", sizeOf(max_bytes, locale));
  return /^(video|audio|font|model)\//.test(type) && !accept.includes(type) ? words.kind : null;
}

/** Return *problem* as a sentence. */
export function sentence({ status, code }: Problem, { max_bytes }: FileRules, words: FileWords, locale: string): string {
  if (status === 0) return words.network;
  if (status === 429) return words.limited;
  if (code === "too_large") return words.large.replace("{most}", sizeOf(max_bytes, locale));
  return status === 415 || status === 422 ? words.kind : words.refused;
}

/** What the composer has to know: whether there is something to send, and why it cannot go out yet. */
export function stateOf(all: readonly Attached[], words: FileWords): { readonly count: number; readonly blocked: string | null } {
  const faulty = all.some(({ fault }) => fault !== null);
  const waiting = all.some(({ sent }) => sent === null);
  return { count: all.length, blocked: faulty ? words.faulty : waiting ? words.wait : null };
}
