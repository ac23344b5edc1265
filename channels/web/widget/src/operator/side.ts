/** The list of conversations: searched, filtered, and kept up to date for as long as someone looks at it. */

import { h, setAttribute, setChildren, setText } from "../dom.js";
import { unmistakable } from "../legible.js";
import { asProblem, type Problem } from "../wire/problem.js";
import { explain } from "../words/strings.js";
import type { Api, Session, SessionStatus, Wanted } from "./api.js";
import { counted, emptyWords, extended, isSame, NO_LISTING, refreshed, type Listing } from "./listing.js";
import { ago, full, nameOf, TALK, WORDS } from "./words.js";

export interface Side {
  readonly node: HTMLElement;
  /** Mark the conversation that is open. */
  choose(session: string | null): void;
  /** Look soon: something has changed, and perhaps more will. */
  refresh(): void;
}

export interface SideOptions {
  readonly api: Api;
  readonly head: Node;
  readonly pause: (milliseconds: number, signal: AbortSignal) => Promise<void>;
  readonly isHidden: () => boolean;
  /** The conversations that are listed, whenever they change. */
  readonly listed: (sessions: readonly Session[], agents: ReadonlyMap<string, string>) => void;
  /** How many wait for a person, of all and not only of those that are listed; empty for none. */
  readonly waiting: (said: string) => void;
  readonly now: () => number;
  readonly signal: AbortSignal;
}

const [SOONEST, LATEST] = [2_000, 15_000]; // between two looks: the longer nothing changes, the rarer
const SEARCHED = 30_000; // a search reads many conversations
const UNSEEN = 60_000; // in a tab that is not looked at, for the number in its title
const TYPING = 250;
const SETTLING = 300;
const MINUTE = 60_000;
const FILTERS: readonly (readonly [string, SessionStatus | null])[] = [[WORDS.all, null], [WORDS.waiting, "waiting"], [WORDS.running, "running"]];

export function createSide({ api, head, pause, isHidden, listed, waiting, now, signal }: SideOptions): Side {
  const search = h("input", { type: "search", "aria-label": WORDS.search, placeholder: WORDS.search, maxlength: "200", enterkeyhint: "search" });
  const filters = FILTERS.map(([label], index) => h("button", { type: "button", "aria-pressed": index === 0 ? "true" : "false" }, label));
  const list = h("ul", { class: "sessions", "aria-label": WORDS.sessions });
  const more = h("button", { type: "button", class: "choice more" }, WORDS.more);
  const status = h("p", { class: "nothing", role: "status" }, WORDS.loading);
  const bar = h("div", { class: "filters", role: "group", "aria-label": WORDS.filters }, ...filters);
  const node = h("nav", { class: "side", "aria-label": WORDS.sessions }, head, search, bar, h("div", { class: "scroll" }, list, status, more));
  const rows = new Map<string, Row>();
  let wanted: Wanted = { text: "", status: null };
  let listing: Listing = NO_LISTING;
  let agents: ReadonlyMap<string, string> = new Map();
  let chosen: string | null = null;
  let problem: Problem | null = null;
  let looking = new AbortController();

  const paint = (): void => {
    const seen = new Set(listing.items.map(({ id }) => id));
    for (const id of rows.keys()) if (!seen.has(id)) rows.delete(id);
    setChildren(list, listing.items.map((session) => {
      const row = rows.get(session.id) ?? rowOf(session.id);
      rows.set(session.id, row);
      row.update(session, agents.get(session.agent) ?? "", session.id === chosen, now());
      return row.node;
    }));
    more.hidden = listing.next === null;
    setText(status, said());
    status.hidden = !status.textContent;
  };
  const said = (): string => {
    if (problem) return `${WORDS.unread} ${explain(problem, TALK)}`;
    if (!listing.loaded) return WORDS.loading;
    if (listing.items.length) return "";
    return emptyWords(listing, wanted);
  };
  const take = (next: Listing): void => {
    listing = next;
    problem = null;
    paint();
    listed(listing.items, agents);
  };
  /** Names of agents are asked for once, and again when there is an agent whose name is not known. */
  const learnAgents = async (ids: readonly string[], mine: AbortSignal): Promise<void> => {
    if (ids.some((id) => !agents.has(id))) agents = new Map([...ids.map((id) => [id, ""] as const), ...(await api.agents(mine))]);
  };
  const look = async (mine: AbortSignal): Promise<boolean> => {
    const page = await api.sessions(wanted, null, mine);
    await learnAgents(page.items.map(({ agent }) => agent), mine);
    const isWhole = !wanted.text && wanted.status === null && page.next_cursor === null;
    const wait = isWhole ? { ...page, items: page.items.filter((each) => each.status === "waiting") } : await api.waiting(mine);
    mine.throwIfAborted();
    waiting(counted(wait));
    const next = refreshed(listing, page);
    const changed = problem !== null || !isSame(listing, next);
    take(next);
    return changed;
  };
  const keep = async (mine: AbortSignal): Promise<void> => {
    for (let wait = SOONEST; !mine.aborted; await pause(wait, mine)) {
      try {
        const changed = await look(mine);
        const next = wanted.text ? SEARCHED : changed ? SOONEST : Math.min(LATEST, wait * 1.5);
        wait = isHidden() ? UNSEEN : next; // the pause ends when the page is looked at again
      } catch (error) {
        if (mine.aborted) return;
        problem = asProblem(error);
        wait = LATEST;
        paint();
      }
    }
  };
  const begin = (): void => {
    looking.abort();
    looking = new AbortController();
    void keep(AbortSignal.any([looking.signal, signal]));
  };
  const want = (next: Wanted): void => {
    if (next.text === wanted.text && next.status === wanted.status) return;
    wanted = next;
    listing = NO_LISTING;
    filters.forEach((each, index) => setAttribute(each, "aria-pressed", FILTERS[index]?.[1] === wanted.status ? "true" : "false"));
    begin();
  };
  const extend = async (): Promise<void> => {
    const mine = looking.signal;
    more.disabled = true;
    try {
      const page = await api.sessions(wanted, listing.next, AbortSignal.any([mine, signal]));
      await learnAgents(page.items.map(({ agent }) => agent), signal);
      if (!mine.aborted) take(extended(listing, page));
    } catch (error) {
      if (!mine.aborted) problem = asProblem(error);
      paint();
    } finally {
      more.disabled = false;
    }
  };

  let typing: ReturnType<typeof setTimeout> | undefined;
  let stirring: ReturnType<typeof setTimeout> | undefined;
  search.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => want({ ...wanted, text: search.value.trim() }), TYPING);
  }, { signal });
  filters.forEach((each, index) => each.addEventListener("click", () => want({ ...wanted, status: FILTERS[index]?.[1] ?? null }), { signal }));
  more.addEventListener("click", () => void extend(), { signal });
  list.addEventListener("keydown", walk, { signal });
  signal.addEventListener("abort", () => (clearTimeout(typing), clearTimeout(stirring)), { once: true });
  begin();
  return {
    node,
    choose(session) {
      chosen = session;
      paint();
    },
    refresh() {
      clearTimeout(stirring);
      stirring = setTimeout(begin, SETTLING);
    },
  };
}

/** Let the arrow keys go from one conversation to the next. */
function walk(event: KeyboardEvent): void {
  const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key] as "nextElementSibling" | undefined;
  const row = step && (event.target as Element).closest("li")?.[step];
  if (!row) return;
  event.preventDefault();
  row.querySelector("a")?.focus();
}

interface Row {
  readonly node: HTMLElement;
  update(session: Session, agent: string, chosen: boolean, now: number): void;
}

function rowOf(id: string): Row {
  const title = h("span", { class: "row-title" });
  const time = h("time", {});
  const about = h("span", { class: "row-about" });
  const badge = h("span", { class: "badge" });
  let at = "";
  let written = 0;
  const link = h("a", { href: linkOf(id) }, h("span", { class: "row-top" }, title, time), h("span", { class: "row-bottom" }, about, badge));
  return {
    node: h("li", {}, link),
    update(session, agent, isChosen, now) {
      setText(title, session.title ? unmistakable(session.title) : WORDS.untitled);
      setText(about, [nameOf(session.actor), unmistakable(agent)].filter(Boolean).join(" · "));
      if (at !== session.last_activity_at || now - written > MINUTE / 2) {
        at = session.last_activity_at; // what a browser takes longest for is to write a time
        written = now;
        setText(time, ago(at, now));
        setAttribute(time, "datetime", at);
        setAttribute(time, "title", full(at));
      }
      setText(badge, WORDS.status[session.status] ?? session.status);
      setAttribute(link, "data-status", session.status);
      setAttribute(link, "aria-current", isChosen ? "true" : null);
    },
  };
}

/** Return the address of a conversation on this page; others link to it, so it stays as it is. */
export function linkOf(session: string): string {
  return `#/s/${encodeURIComponent(session)}`;
}

/** Return the conversation that *hash* names, null when it names none. */
export function sessionOf(hash: string): string | null {
  const found = /^#\/s\/([^/]+)$/.exec(hash)?.[1];
  try {
    return found === undefined ? null : decodeURIComponent(found);
  } catch {
    return null;
  }
}
