/** What is done with whole conversations: a message is said again, another conversation is opened, one is renamed or deleted. */

import type { Part } from "../log/events.js";
import { EMPTY, textOf, type ViewState } from "../log/state.js";
import type { Home, Talk } from "../talk/talk.js";
import type { SentFile } from "../wire/upload.js";

/** What the conversations of a person do in the place of `Actions`; each returns whether it was done. */
export interface Talks {
  edit(message: string, text: string): Promise<boolean>;
  regenerate(message: string): Promise<boolean>;
  open(session: string): Promise<boolean>;
  rename(session: string, title: string): Promise<boolean>;
  remove(session: string): Promise<boolean>;
  /** Go on in the session that has taken the place of *home*'s: another tab or device said a message again. */
  move(home: Home): Promise<boolean>;
}

/** What answers about conversations hold, as far as it is read here. */
interface Found {
  readonly id: string;
  /** The session that goes on in its place. */
  readonly replaced_by?: string | null;
  /** The time of its newest fact; a copy has those of its source until something is said in it. */
  readonly last_activity_at?: string;
}

const PLACE = "/v1/web/conversations";
const SESSIONS = "/v1/sessions";

/** Return what is done with whole conversations, beside the one that *talk* shows. */
export function talks(talk: Talk): Talks {
  const { client, memory, signal } = talk;
  const ask = async (place: string, session: string, method = "GET", body?: object, more = ""): Promise<Found> => {
    const sent = body && { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } };
    const response = await client.request(`${place}/${encodeURIComponent(session)}${more}`, { method, signal, ...sent });
    return response.status === 204 ? { id: session } : ((await response.json()) as Found);
  };
  /** Return what goes on in the place of *session*; with *begun* only what something was said in since. */
  const latest = async (session: string, begun = false): Promise<Found> => {
    const found = await ask(SESSIONS, session);
    if (!found.replaced_by) return found;
    const next = await latest(found.replaced_by, begun);
    const isEmpty = begun && (next.last_activity_at ?? "") <= (found.last_activity_at ?? "");
    return isEmpty ? found : next;
  };

  const partsOf = (message: string): readonly Part[] => talk.view().messages.find(({ id }) => id === message)?.parts ?? [];

  /** Say *text* in the place of the person's message *id*, with its files: in a copy of the conversation that ends before it. */
  const branch = async (id: string, text: string): Promise<boolean> => {
    const [home, before] = [talk.home(), talk.home().id];
    const files = partsOf(id).flatMap((part): SentFile[] => (part.type === "file" ? [part] : []));
    if (before === null || home.branching || !(text.trim() || files.length)) return false;
    home.branching = true;
    try {
      const copy = (await ask(PLACE, before, "POST", { message: id }, "/branch")).id;
      const view = upTo(talk.view(), id);
      memory.move(before, copy, view.seq);
      if (home === talk.home()) talk.proceed(copy, view);
      else home.id = copy;
      talk.say(text, files, home);
      return true;
    } finally {
      home.branching = false;
    }
  };

  return {
    edit: branch,
    regenerate: (id) => branch(id, textOf(partsOf(id))),
    async open(session) {
      const found = (await latest(session, true)).id;
      if (found !== talk.home().id) talk.show(found);
      return true;
    },
    async rename(session, title) {
      await ask(PLACE, session, "PATCH", { title });
      return true;
    },
    async remove(session) {
      await ask(PLACE, session, "DELETE");
      if (session === talk.home().id) talk.show(null);
      memory.drop(session);
      return true;
    },
    async move(home) {
      const before = home.id ?? "";
      const found = (await latest(before)).id;
      if (found === before) return false;
      if (home === talk.home()) talk.proceed(found, EMPTY);
      else home.id = found;
      return true;
    },
  };
}

/** Return *view* as it was before the message *id*. */
function upTo(view: ViewState, id: string): ViewState {
  const at = view.messages.findIndex((each) => each.id === id);
  const messages = view.messages.slice(0, Math.max(0, at));
  const runs = new Set(messages.map(({ run }) => run));
  return { ...view, seq: (view.messages[at]?.seq ?? 1) - 1, messages, runs: view.runs.filter((run) => runs.has(run.id)) };
}
