/** One person's conversation with one agent: the folded log, what is still on its way, and the state of the link. */

import type { Client, Output } from "../wire/client.js";
import { asker, CONVERSATIONS, pathIn, upTo } from "./asking.js";
import { mayDecide, type Decisions, type Vote } from "./deciding.js";
import { arrived, pruned, type Outgoing } from "./outbox.js";
import { asProblem, type Problem } from "../wire/problem.js";
import { reduce } from "../log/reduce.js";
import { EMPTY, textOf, type Call, type ViewState } from "../log/state.js";
import type { Frame, KnownFrame } from "../log/events.js";
import type { Memory } from "./storage.js";

export interface Conversation {
  readonly view: ViewState;
  readonly outbox: readonly Outgoing[];
  readonly link: "idle" | "connecting" | "open" | "reconnecting" | "broken";
  /** Why the link is broken, or why a request came to nothing. */
  readonly problem: Problem | null;
  /** The conversation before this one could not be found any more. */
  readonly lost: boolean;
  readonly stopping: readonly string[];
  readonly decisions: Decisions;
  /** The session that is shown; null before the first message. */
  readonly session: string | null;
  /** Counts the conversations that were shown: with another number it is another one. */
  readonly talk: number;
  /** Answers that came while they could not be seen. */
  readonly unread: number;
}

export interface Actions {
  /** Show what there is, and resume the remembered session. */
  start(): void;
  send(text: string): void;
  resend(key: string): void;
  stop(run: string): void;
  decide(approval: string, vote: Vote): void;
  /** Hand in what became of a call that this page executed; whether it counted. */
  output(run: string, output: Output): Promise<boolean>;
  /** Leave this conversation; the next message opens another. */
  renew(): void;
  /** Say *text* in the place of the person's newest message: the conversation goes on as a copy that ends before it; whether it does. */
  edit(message: string, text: string): Promise<boolean>;
  /** Ask the person's newest message again in such a copy. */
  regenerate(message: string): Promise<boolean>;
  /** Show *session*, if it is the visitor's; else say so, and stay where it is. */
  open(session: string): Promise<boolean>;
  /** Give *session* another title; whether it has it. */
  rename(session: string, title: string): Promise<boolean>;
  /** Delete *session*, its runs stopped; whether it is gone. */
  remove(session: string): Promise<boolean>;
  /** Return what was written in this conversation and not sent. */
  draft(): string;
  /** Keep what is written and not sent. */
  write(text: string): void;
  /** What is shown may be seen from now on: ask `visible` again. */
  seen(): void;
  reconnect(): void;
  dismiss(): void;
}

export interface ConversationOptions {
  readonly client: Client;
  readonly agent: string | null;
  readonly memory: Memory;
  readonly changed: (conversation: Conversation) => void;
  /** A call waits for the page that the widget is in; reported once. Ask *isOpen* again after any wait. */
  readonly called: (call: Call, isOpen: () => boolean) => void;
  readonly signal: AbortSignal;
  readonly newKey: () => string;
  /** Whether a person can see what is shown; without it they always can. */
  readonly visible?: () => boolean;
}

export const FRESH: Conversation = { view: EMPTY, outbox: [], link: "idle", problem: null, lost: false, stopping: [], decisions: {}, session: null, talk: 0, unread: 0 };

const SESSIONS = "/v1/sessions";

/** What messages are sent to: a session, or one that the first message opens. */
interface Home {
  id: string | null;
  opening: Promise<string> | null;
}

/** Return what can be done in a conversation; *options.signal* ends it. */
export function converse(options: ConversationOptions): Actions {
  const { client, memory, signal } = options;
  const visible = options.visible ?? (() => true);
  const ask = asker(client.request, signal);
  let home: Home = { id: memory.load(), opening: null };
  let now: Conversation = { ...FRESH, session: home.id };
  let branching = false;
  let reading = new AbortController();
  let queue: Promise<void> = Promise.resolve();
  const reported = new Set<string>();

  const set = (changes: Partial<Conversation>): void => {
    if (signal.aborted) return;
    const next = { ...now, ...changes };
    now = { ...next, outbox: pruned(next.outbox, next.view) };
    options.changed(now);
    if (changes.view) notice(now.view.calls);
  };
  const setOutgoing = (key: string, changes: Partial<Outgoing>): void =>
    set({ outbox: now.outbox.map((each) => (each.key === key ? { ...each, ...changes } : each)) });

  /** Notify the server of questions that are on the screen, and the page of calls that are its own; each once. */
  const notice = (calls: readonly Call[]): void => {
    for (const call of calls) {
      const { approval, id, on, status } = call;
      if (status !== "waiting" || reported.has(`${on} ${id}`)) continue;
      reported.add(`${on} ${id}`);
      if (on === "approval" && approval && mayDecide(approval)) client.opened(approval.id, signal).catch(() => reported.delete(`${on} ${id}`));
      if (on === "client") queueMicrotask(() => isOpen(id) && options.called(call, () => isOpen(id)));
    }
  };
  /** Of a conversation that is read again, calls that were answered long ago wait for a moment too. */
  const isOpen = (id: string): boolean => now.view.calls.some((call) => call.id === id && call.status === "waiting");

  /** Read *id* from *begun* on; what there is up to *from* is shown at once. */
  const follow = (id: string, begun = now.view, from = 0): void => {
    reading.abort();
    reading = new AbortController();
    const mine = linked(reading, signal);
    let view = begun;
    const reads = reader(id);
    const follower = {
      cursor: () => view.seq,
      frame(frame: Frame) {
        if (mine.aborted) return;
        const before = view.seq;
        view = reduce(view, frame);
        if (view.seq >= from) set({ view });
        if (view.seq > before) reads(frame as KnownFrame, view.seq);
      },
      link: (link: Conversation["link"]) => mine.aborted || set({ link }),
      reset: () => set({ view: (view = EMPTY) }),
    };
    client.follow(id, follower, mine).catch((error: unknown) => {
      if (mine.aborted) return;
      const problem = asProblem(error);
      if (problem.status === 404) forget();
      else set({ link: "broken", problem });
    });
  };
  /** Count answers that cannot be seen, and remember how far *id* was read; a burst of answers is written down once. */
  const reader = (id: string) => {
    let read = memory.seen(id) ?? 0;
    let due = false;
    return ({ type, data }: KnownFrame, seq: number): void => {
      if (type !== "message.completed" || data.role !== "assistant" || seq <= read) return;
      if (!visible()) return void (textOf(data.parts) && set({ unread: now.unread + 1 }));
      read = seq;
      if (due) return;
      due = true;
      queueMicrotask(() => ((due = false), memory.see(id, read)));
    };
  };

  /** Show *id*, or with null a conversation that is not opened yet. */
  const show = (id: string | null): void => {
    reading.abort();
    leave();
    home = { id, opening: null };
    memory.save(id);
    set({ ...FRESH, session: id, talk: now.talk + 1 });
    if (id !== null) follow(id);
  };
  /** What could not be sent is kept with what was written. */
  const leave = (): void => {
    const unsent = now.outbox.filter(({ status }) => status === "failed").map(({ text }) => text);
    if (unsent.length && home.id !== null) memory.keep(home.id, [...unsent, memory.draft(home.id)].join("\n\n"));
  };
  const adopt = (id: string): void => {
    home.id = id;
    memory.save(id);
    set({ session: id });
    follow(id);
  };
  /** The session is not there any more: what was not sent waits for another. */
  const forget = (): void => {
    reading.abort();
    if (home.id !== null) memory.drop(home.id);
    memory.save(null);
    home.id = null;
    set({ ...FRESH, lost: true, talk: now.talk, outbox: now.outbox.map((each) => ({ ...each, since: 0 })) });
  };
  const ensure = (mine: Home): Promise<string> => {
    if (mine.id !== null) return Promise.resolve(mine.id);
    mine.opening ??= client
      .open(options.agent, signal)
      .then((id) => {
        memory.keep(id, memory.draft(null));
        memory.keep(null, "");
        if (mine === home) adopt(id);
        return (mine.id = id);
      })
      .finally(() => (mine.opening = null));
    return mine.opening;
  };

  const deliver = async ({ key, text }: Outgoing, mine: Home, again = true): Promise<void> => {
    const used = await ensure(mine);
    if (mine === home && !now.outbox.some((each) => each.key === key)) return;
    try {
      const posted = await client.post(used, text, key, signal);
      set({ outbox: arrived(now.outbox, key, posted.seq) });
    } catch (error) {
      const { status, code } = asProblem(error);
      if (!again) throw error;
      if (code === "session_closed" && (await moved(mine))) return deliver({ key, text, status: "sending", since: 0 }, mine, false);
      if (status !== 404) throw error;
      if (mine.id === used && mine === home) forget();
      if (mine.id !== null) throw error;
      await deliver({ key, text, status: "sending", since: 0 }, mine, false);
    }
  };
  const enqueue = (outgoing: Outgoing, mine = home): void => {
    const fail = (error: unknown): void => {
      if (mine !== home && mine.id !== null) memory.keep(mine.id, outgoing.text); // its conversation is not on the screen
      setOutgoing(outgoing.key, { status: "failed", problem: asProblem(error) });
    };
    queue = queue.then(() => deliver(outgoing, mine)).catch(fail);
  };

  const say = (text: string, mine = home): void => {
    const outgoing: Outgoing = { key: options.newKey(), text, status: "sending", since: now.view.seq };
    if (mine === home) set({ outbox: [...now.outbox, outgoing] });
    enqueue(outgoing, mine);
  };
  const attempt = async (work: () => Promise<unknown>): Promise<boolean> => {
    try {
      await work();
      return true;
    } catch (error) {
      set({ problem: asProblem(error) });
      return false;
    }
  };

  /** Return the session that goes on in the place of *id*, or *id*. */
  const latest = async (id: string): Promise<string> => {
    const { replaced_by: next } = await ask(pathIn(SESSIONS, id));
    return next ? latest(next) : id;
  };
  /** Whether *mine* goes on as another session, which then takes its place: another tab or device has edited a message. */
  const moved = async (mine: Home): Promise<boolean> => {
    const before = mine.id ?? "";
    const id = await latest(before);
    if (id === before) return false;
    if (mine === home) proceed(id, EMPTY);
    else mine.id = id;
    return true;
  };
  /** Go on in *id*, a copy of this session that ends with *view*. */
  const proceed = (id: string, view: ViewState): void => {
    if (home.id !== null) memory.move(home.id, id);
    home.id = id;
    memory.save(id);
    set({ view, session: id, outbox: now.outbox.map((each) => ({ ...each, since: Math.min(each.since, view.seq) })) });
    follow(id, EMPTY, view.seq + 1);
  };
  /** Say *text* in the place of the person's message *id*. */
  const branch = async (id: string, text: string): Promise<boolean> => {
    const from = home;
    const before = from.id;
    if (before === null || branching || !text.trim()) return false;
    branching = true;
    const isDone = await attempt(async () => {
      const copy = await ask(`${pathIn(CONVERSATIONS, before)}/branch`, "POST", { message: id });
      if (from === home) proceed(copy.id, upTo(now.view, id));
      else from.id = copy.id;
      say(text, from);
    });
    branching = false;
    return isDone;
  };
  return {
    start() {
      memory.watch((to, from) => {
        if (from !== null && from === home.id) proceed(to, EMPTY);
        else if (from === null && home.id === null && !home.opening) adopt(to);
      }, signal);
      options.changed(now);
      if (home.id !== null) follow(home.id);
    },
    send: (text) => say(text),
    resend(key) {
      const outgoing = now.outbox.find((each) => each.key === key);
      if (!outgoing) return;
      setOutgoing(key, { status: "sending" });
      enqueue(outgoing);
    },
    stop(run) {
      set({ stopping: [...now.stopping, run] });
      client.cancel(run, signal).catch((error: unknown) => {
        set({ stopping: now.stopping.filter((each) => each !== run), problem: asProblem(error) });
      });
    },
    decide(approval, vote) {
      const mark = (deciding: Decisions[string]): void => set({ decisions: { ...now.decisions, [approval]: deciding } });
      mark({ sending: true });
      client.decide(approval, vote, signal).then(
        () => mark({ sending: false }),
        (error: unknown) => mark({ sending: false, problem: asProblem(error) }),
      );
    },
    async output(run, output) {
      try {
        await client.output(run, output, signal);
        return true;
      } catch (error) {
        const problem = asProblem(error);
        if (problem.status !== 409) set({ problem }); // 409: another tab was first
        return false;
      }
    },
    renew: () => show(null),
    edit: (message, text) => branch(message, text),
    regenerate: (message) => branch(message, textOf(now.view.messages.find(({ id }) => id === message)?.parts ?? [])),
    open: (id) =>
      attempt(async () => {
        const found = await latest(id);
        if (found !== home.id) show(found);
      }),
    rename: (id, title) => attempt(() => ask(pathIn(CONVERSATIONS, id), "PATCH", { title })),
    async remove(id) {
      const isGone = await attempt(() => ask(pathIn(CONVERSATIONS, id), "DELETE"));
      if (isGone && id === home.id) show(null);
      if (isGone) memory.drop(id);
      return isGone;
    },
    draft: () => memory.draft(home.id),
    write: (text) => memory.keep(home.id, text),
    seen() {
      if (!visible()) return;
      if (home.id !== null && now.view.seq) memory.see(home.id, now.view.seq);
      if (now.unread) set({ unread: 0 });
    },
    reconnect() {
      set({ problem: null });
      if (home.id !== null) follow(home.id);
    },
    dismiss: () => set({ problem: null, lost: false }),
  };
}

function linked(controller: AbortController, parent: AbortSignal): AbortSignal {
  parent.addEventListener("abort", () => controller.abort(), { once: true, signal: controller.signal });
  return controller.signal;
}
