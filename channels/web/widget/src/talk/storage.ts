/**
 * What a browser remembers of a person's conversations: which one is open in this tab, which one was used last, what was written and not
 * sent, and how far each was read.
 *
 * Which one is open is the tab's own: no other tab changes it. A tab that has not chosen yet takes the one that was used last.
 */

export interface Memory {
  load(): string | null;
  /** Remember what is open in this tab; null is a new conversation. */
  save(session: string | null): void;
  /** Return what was written in *session* and not sent; null is one that is not opened yet. */
  draft(session: string | null): string;
  keep(session: string | null, text: string): void;
  /** Return the newest fact of *session* that was read in this browser, if it is known. */
  seen(session: string): number | undefined;
  see(session: string, seq: number): void;
  /** *from* goes on as *to*: what was written and read belongs to that, in all tabs. */
  move(from: string, to: string): void;
  /** Forget what is known of *session*. */
  drop(session: string): void;
  /** Call *changed* when *from*, in another tab, went on as *to*; *from* is null while this tab has not chosen any and *to* was used. */
  watch(changed: (to: string, from: string | null) => void, signal: AbortSignal): void;
}

const MOST_DRAFTS = 20;
const LONGEST_DRAFT = 20_000; // characters
const MOST_SEEN = 200;

/** Return a memory under *key*; where storage is forbidden it forgets when the page goes. */
export function browserMemory(key: string): Memory {
  const tab = store(() => sessionStorage);
  const all = store(() => localStorage);
  const [drafts, seen] = [table<string>(all, `drafts of ${key}`, MOST_DRAFTS), table<number>(all, `read of ${key}`, MOST_SEEN)];
  const [unopened, moved] = [`draft of ${key}`, `moved of ${key}`];
  /** What this tab has chosen: null is nothing yet, an empty text a new conversation. */
  const chosen = (): string | null => tab.get(key);
  const draft = (session: string | null): string => (session === null ? tab.get(unopened) : drafts.get(session)) ?? "";
  const keep = (session: string | null, given: string): void => {
    const text = given.trim() ? given.slice(0, LONGEST_DRAFT) : null;
    if (session === null) tab.set(unopened, text);
    else drafts.set(session, text);
  };
  return {
    load: () => (chosen() ?? all.get(key)) || null,
    save(session) {
      if (session !== null) all.set(key, session);
      else if (all.get(key) === chosen()) all.set(key, null); // unless another tab has gone on to another
      tab.set(key, session ?? "");
    },
    draft,
    keep,
    seen: (session) => seen.get(session) ?? undefined,
    see: (session, seq) => seq > (seen.get(session) ?? 0) && seen.set(session, seq),
    move(from, to) {
      if (draft(from)) keep(to, draft(from));
      drafts.set(from, null);
      all.set(moved, `${from} ${to}`);
    },
    drop(session) {
      drafts.set(session, null);
      seen.set(session, null);
      if (all.get(key) === session) all.set(key, null);
    },
    watch(changed, signal) {
      const listen = (event: StorageEvent): void => {
        const [one, other] = (event.newValue ?? "").split(" ");
        if (event.key === moved && one && other) changed(other, one);
        else if (event.key === key && one && chosen() === null && !draft(null)) changed(one, null);
      };
      addEventListener("storage", listen, { signal });
    },
  };
}

interface Store {
  get(name: string): string | null;
  set(name: string, value: string | null): void;
}

/** Return a store that also holds what it cannot write. */
function store(place: () => Storage): Store {
  const held = new Map<string, string | null>();
  return {
    get: (name) => (held.has(name) ? (held.get(name) ?? null) : attempt(() => place().getItem(name))),
    set(name, value) {
      held.delete(name);
      const written = attempt(() => (value === null ? place().removeItem(name) : place().setItem(name, value), true));
      if (!written) held.set(name, value);
    },
  };
}

interface Table<T> {
  get(name: string): T | null;
  set(name: string, value: T | null): void;
}

/** Return the *most* entries under *name* that were set last, kept as one value. */
function table<T extends string | number>(place: Store, name: string, most: number): Table<T> {
  const read = (): [string, T][] => {
    const found: unknown = attempt(() => JSON.parse(place.get(name) ?? "[]"));
    return Array.isArray(found) ? (found as unknown[]).filter((each): each is [string, T] => Array.isArray(each)) : [];
  };
  return {
    get: (id) => read().find(([known]) => known === id)?.[1] ?? null,
    set(id, value) {
      const others = read().filter(([known]) => known !== id);
      place.set(name, JSON.stringify(value === null ? others : [[id, value], ...others].slice(0, most)));
    },
  };
}

function attempt<T>(use: () => T): T | null {
  try {
    return use();
  } catch {
    return null;
  }
}
