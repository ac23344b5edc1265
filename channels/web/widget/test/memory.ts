/** A browser's memory of conversations, without a browser. */

import type { Memory, Unsent } from "../src/talk/storage.js";
import type { SentFile } from "../src/wire/upload.js";

export interface HeldMemory extends Memory {
  readonly drafts: Map<string | null, string>;
  readonly read: Map<string, number>;
  readonly moves: (readonly [string, string, number])[];
  /** Another tab went on, see `Memory.watch`. */
  otherTab(to: string, from?: string | null): void;
}

/** Return a memory of the session *saved*. */
export function heldMemory(saved: string | null = null): HeldMemory {
  let listener: (to: string, from: string | null) => void = () => undefined;
  const [drafts, read, moves] = [new Map<string | null, string>(), new Map<string, number>(), [] as [string, string, number][]];
  const enclosed = new Map<string | null, readonly SentFile[]>();
  const held = new Map<string | null, readonly Unsent[]>();
  const files = (id: string | null): readonly SentFile[] => enclosed.get(id) ?? [];
  return {
    files,
    attach: (id, all) => void enclosed.set(id, all),
    hold: (id, unsent) => void held.set(id, unsent),
    reclaim(id, unsent = []) {
      const all = [...(held.get(id) ?? []), ...unsent];
      drafts.set(id, [...all.map(({ text }) => text), drafts.get(id) ?? ""].filter(Boolean).join("\n\n"));
      enclosed.set(id, [...all.flatMap((each) => each.files), ...files(id)]);
      held.delete(id);
    },
    drafts,
    read,
    moves,
    otherTab: (to, from = null) => listener(to, from),
    load: () => saved,
    save: (id) => void (saved = id),
    draft: (id) => drafts.get(id) ?? "",
    keep: (id, text) => void drafts.set(id, text),
    seen: (id) => read.get(id),
    see: (id, seq) => void read.set(id, seq),
    move: (from, to, seq) => void moves.push([from, to, seq]),
    drop: (id) => void (drafts.delete(id), read.delete(id)),
    watch: (changed) => void (listener = changed),
  };
}
