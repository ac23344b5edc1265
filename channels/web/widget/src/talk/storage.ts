/**
 * What a browser remembers of a person's conversations: which one is open in this tab, which one was used last, what was written and not
 * sent, and how far each was read.
 *
 * Which one is open is the tab's own: no other tab changes it. A tab that has not chosen yet takes the one that was used last.
 */

import type { SentFile } from "../wire/upload.js";

/** A message that is not sent. */
export interface Unsent {
  readonly text: string;
  readonly files: readonly SentFile[];
}

export interface Memory {
  load(): string | null;
  /** Remember what is open in this tab; null is a new conversation. */
  save(session: string | null): void;
  /** Return what was written in *session* and not sent; null is one that is not opened yet. */
  draft(session: string | null): string;
  keep(session: string | null, text: string): void;
  /** Return the files that were attached in *session* and not sent. */
  files(session: string | null): readonly SentFile[];
  attach(session: string | null, files: readonly SentFile[]): void;
  /** Keep what could not be sent in *session*, for a page that comes later; in place of what was held before. */
  hold(session: string | null, unsent: readonly Unsent[]): void;
  /** Put what is held of *session*, and *unsent*, before what was written there. */
  reclaim(session: string | null, unsent?: readonly Unsent[]): void;
  /** Return the newest fact of *session* that was read in this browser, if it is known. */
  seen(session: string): number | undefined;
  see(session: string, seq: number): void;
  /** *from* goes on as *to*, which was read up to *seq*: what was written belongs to that, and other tabs follow. */
  move(from: string, to: string, seq: number): void;
  /** Forget what is known of *session*. */
  drop(session: string): void;
  /** Call *changed* when *from*, in another tab, went on as *to*; *from* is null while this tab has not chosen any and *to* was used. */
  watch(changed: (to: string, from: string | null) => void, signal: AbortSignal): void;
}

interface Note {
  readonly draft?: string;
  readonly files?: readonly SentFile[];
  readonly unsent?: readonly Unsent[];
  readonly seen?: number;
}

const MOST_NOTES = 50; // conversations, those that were used last
const LONGEST_DRAFT = 10_000; // characters
const MOST_FILES = 20; // of one message
const MOST_UNSENT = 5; // messages

/** Return a memory under *key*; where storage is forbidden it forgets when the page goes. */
export function browserMemory(key: string): Memory {
  const [tab, all, own] = [() => sessionStorage, () => localStorage, `of ${key}`] as const;
  /** What this tab has chosen: null is nothing yet, an empty text a new conversation. */
  const chosen = slot(tab, key);
  const last = slot(all, key);
  const unopened = slot(tab, `draft ${own}`);
  const unopenedNote = slot(tab, `note ${own}`);
  const noted = slot(all, `notes ${own}`);
  const moved = slot(all, `moved ${own}`);
  const notes = (): Readonly<Record<string, Note>> => attempt(() => JSON.parse(noted.get() ?? "{}") as Record<string, Note>) ?? {};
  const known = (id: string | null): Note => (id === null ? attempt(() => JSON.parse(unopenedNote.get() ?? "{}") as Note) : notes()[id]) ?? {};
  /** Change what is known of *id*, which is nothing new of a conversation without any. */
  const enclose = (id: string | null, changes: Note): void => {
    if (id === null) unopenedNote.set(JSON.stringify({ ...known(id), ...changes }));
    else note(id, changes);
  };
  const note = (id: string, changes: Note | null): void => {
    const { [id]: known, ...others } = notes();
    const entries = Object.entries(changes ? { ...others, [id]: { ...known, ...changes } } : others);
    noted.set(JSON.stringify(Object.fromEntries(entries.slice(-MOST_NOTES))));
  };
  const draft = (id: string | null): string => (id === null ? unopened.get() : known(id).draft) ?? "";
  const keep = (id: string | null, text: string): void => {
    if (id === null) unopened.set(text);
    else if (text !== draft(id)) note(id, { draft: text.slice(0, LONGEST_DRAFT) });
  };
  const files = (id: string | null): readonly SentFile[] => listed(known(id).files);
  const attach = (id: string | null, all: readonly SentFile[]): void => {
    if (all.length || files(id).length) enclose(id, { files: all.slice(0, MOST_FILES) });
  };
  const held = (id: string | null): readonly Unsent[] => listed(known(id).unsent);
  const hold = (id: string | null, unsent: readonly Unsent[]): void => {
    const kept = unsent.slice(-MOST_UNSENT).map((each) => ({ text: each.text.slice(0, LONGEST_DRAFT), files: each.files.slice(0, MOST_FILES) }));
    if (kept.length || held(id).length) enclose(id, { unsent: kept });
  };
  return {
    load: () => (chosen.get() ?? last.get()) || null,
    save(id) {
      if (id !== null || last.get() === chosen.get()) last.set(id); // a new one hides no other tab's
      chosen.set(id ?? "");
    },
    draft,
    keep,
    files,
    attach,
    hold,
    reclaim(id, unsent = []) {
      const all = [...held(id), ...unsent];
      if (!all.length) return;
      keep(id, [...all.map(({ text }) => text), draft(id)].filter(Boolean).join("\n\n"));
      attach(id, [...all.flatMap((each) => listed(each.files)), ...files(id)]);
      hold(id, []);
    },
    seen: (id) => notes()[id]?.seen,
    see(id, seq) {
      if (seq > (known(id).seen ?? -1)) note(id, { seen: seq }); // another tab may be ahead
    },
    move(from, to, seen) {
      note(to, { ...known(from), seen });
      note(from, null);
      moved.set(`${from} ${to}`);
    },
    drop(id) {
      note(id, null);
      if (last.get() === id) last.set(null);
    },
    watch(changed, signal) {
      const listen = ({ key: name, newValue }: StorageEvent): void => {
        const [one, other] = (newValue ?? "").split(" ");
        if (!one) return;
        if (name === moved.name && other) changed(other, one);
        else if (name === key && chosen.get() === null && !draft(null) && !files(null).length) changed(one, null);
      };
      addEventListener("storage", listen, { signal });
    },
  };
}

/** Return one value of the storage *place*. */
function slot(place: () => Storage, name: string) {
  let held: string | null = null;
  return {
    name,
    get: (): string | null => attempt(() => place().getItem(name)) ?? held,
    set(value: string | null): void {
      held = value;
      attempt(() => (value === null ? place().removeItem(name) : place().setItem(name, value)));
    },
  };
}

/** Return *value* if it is a list, which others may have written. */
function listed<T>(value: readonly T[] | undefined): readonly T[] {
  return Array.isArray(value) ? value : [];
}

function attempt<T>(use: () => T): T | null {
  try {
    return use();
  } catch {
    return null;
  }
}
