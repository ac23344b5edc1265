/** One person's conversation with one agent: the folded log, what is still on its way, and the state of the link. */

import type { Client, Output } from "../wire/client.js";
import type { Talks } from "../list/talks.js";
import { mayDecide, type Decisions, type Vote } from "./deciding.js";
import type { AgentFace } from "./face.js";
import type { Feedback, Given, Rating } from "./feedback.js";
import { earlier } from "./earlier.js";
import { arrived, keyOfSame, pruned, type Outgoing } from "./outbox.js";
import { asProblem, isRefusal, type Problem } from "../wire/problem.js";
import { reduce } from "../log/reduce.js";
import { EMPTY, textOf, type Call, type ViewState } from "../log/state.js";
import type { Frame, KnownFrame } from "../log/events.js";
import type { SentFile } from "../wire/upload.js";
import type { Memory } from "./storage.js";
import type { Home } from "./talk.js";

export interface Conversation {
  readonly view: ViewState;
  readonly outbox: readonly Outgoing[];
  /** What the server refused last, and why: it goes back to where it was written. */
  readonly refused?: Outgoing | null;
  readonly link: "idle" | "connecting" | "open" | "reconnecting" | "broken";
  /** Why the link is broken, or why a request came to nothing. */
  readonly problem: Problem | null;
  /** The conversation before this one could not be found any more. */
  readonly lost: boolean;
  readonly stopping: readonly string[];
  readonly decisions: Decisions;
  /** What the agent shows of itself; null until it is known. */
  readonly agent: AgentFace | null;
  /** What was said of answers, none at first. */
  readonly feedback?: Feedback;
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
  send(text: string, files?: readonly SentFile[]): void;
  resend(key: string): void;
  stop(run: string): void;
  decide(approval: string, vote: Vote): void;
  /** Hand in what became of a call that this page executed; whether it counted. */
  output(run: string, output: Output): Promise<boolean>;
  /** Rate what *run* answered, and say why; it replaces what was said before. */
  feedback(run: string, rating: Rating, comment?: string): void;
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
  /** Return the files that were attached in this conversation and not sent. */
  attached(): readonly SentFile[];
  /** Keep which files are attached and not sent. */
  attach(files: readonly SentFile[]): void;
  /** Return the newest fact of *session* that was read in this browser, if it is known. */
  read(session: string): number | undefined;
  /** What is shown may be seen from now on: ask `visible` again. */
  seen(): void;
  /** Read what is older than what is shown, if anything is. */
  older(): void;
  reconnect(): void;
  /** There is another token: read what the one before may not have been good for. */
  refresh(): void;
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
  /** Load what is done with whole conversations. */
  readonly more: () => Promise<typeof import("../list/talks.js")>;
}

export const FRESH: Conversation = { view: EMPTY, outbox: [], refused: null, link: "idle", problem: null, lost: false, stopping: [], decisions: {}, agent: null, session: null, talk: 0, unread: 0 };

/** Return what can be done in a conversation; *options.signal* ends it. */
export function converse(options: ConversationOptions): Actions {
  const { client, memory, signal } = options;
  const visible = options.visible ?? (() => true);
  let home: Home = { id: memory.load() };
  let now: Conversation = { ...FRESH, session: home.id };
  let reading = new AbortController();
  let older = async (): Promise<void> => undefined;
  let queue: Promise<void> = Promise.resolve();
  /** The agent is to be read with the next connection. */
  let isDue = false;
  const reported = new Set<string>();
  /** The keys of the messages that are held as unsent, of the conversation that is shown. */
  let held = "";

  const set = (changes: Partial<Conversation>): void => {
    if (signal.aborted) return;
    const { calls } = now.view;
    const next = { ...now, ...changes };
    now = { ...next, outbox: pruned(next.outbox, next.view) };
    hold();
    options.changed(now);
    if (now.view.calls !== calls) notice(now.view.calls);
  };
  /** Keep what could not be sent where the next page finds it. */
  const hold = (): void => {
    const failed = now.outbox.filter(({ status }) => status === "failed");
    const keys = failed.map(({ key }) => key).join(" ");
    if (keys !== held) memory.hold(home.id, failed);
    held = keys;
  };
  const setOutgoing = (key: string, changes: Partial<Outgoing>): void =>
    set({ outbox: now.outbox.map((each) => (each.key === key ? { ...each, ...changes } : each)) });

  /** Read what the agent shows of itself: without it there is everything but that, and with the next connection it is tried again. */
  const learn = (): void => {
    isDue = false;
    client.agent(signal).then((agent) => set({ agent }), () => (isDue = true));
  };

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
    older = earlier(client, id, mine, () => view, (whole) => set({ view: (view = whole) }));
    const follower = {
      cursor: () => view.seq,
      frame(frame: Frame) {
        if (mine.aborted) return;
        const before = view.seq;
        view = reduce(view, frame);
        if (view.seq >= from) set({ view });
        if (view.seq > before) reads(frame as KnownFrame, view.seq);
      },
      link: (link: Conversation["link"]) => {
        if (mine.aborted) return;
        if (link === "open" && isDue) learn();
        isDue ||= link === "open"; // at the next one the server may be another
        set({ link });
      },
      begins: (after: number) => void (view = { ...view, seq: after, begin: after }),
      reset: () => set({ view: (view = EMPTY) }),
    };
    client.follow(id, follower, mine).catch((error: unknown) => {
      if (mine.aborted) return;
      const problem = asProblem(error);
      if (problem.status === 404) forget();
      else set({ link: "broken", problem });
    });
  };
  /** Read what the person has said of the answers of *id*; what is said meanwhile counts. */
  const recall = (id: string): void => {
    const { talk } = now;
    const add = (older: Feedback): void => void (talk === now.talk && set({ feedback: { ...older, ...now.feedback } }));
    client.ratings(id, signal).then(add, () => undefined); // answers are whole without
  };
  const reconnect = (): void => {
    set({ problem: null });
    learn();
    if (home.id !== null) follow(home.id);
  };
  /** Count answers that cannot be seen, and remember how far *id* was read; a burst of answers is written down once. */
  const reader = (id: string) => {
    let read = memory.seen(id) ?? 0;
    let written = read;
    return ({ type, data }: KnownFrame, seq: number): void => {
      if (type !== "message.completed" || seq <= read) return;
      if (!visible()) return void (textOf(data.parts) && set({ unread: now.unread + 1 }));
      read = seq;
      queueMicrotask(() => read > written && memory.see(id, (written = read)));
    };
  };

  /** Show *id*, or with null a conversation that is not opened yet; what could not be sent is kept with what was written. */
  const show = (id: string | null): void => {
    reading.abort();
    memory.reclaim(home.id);
    memory.reclaim(id);
    held = "";
    home = { id };
    set({ ...FRESH, agent: now.agent, talk: now.talk + 1 });
    if (id === null) return memory.save(id);
    proceed(id, EMPTY);
    recall(id);
  };
  /** Go on in *id*, which begins with *view*. */
  const proceed = (id: string, view: ViewState): void => {
    home.id = id;
    memory.save(id);
    set({ view, session: id, outbox: now.outbox.map((each) => ({ ...each, since: Math.min(each.since, view.seq) })) });
    follow(id, EMPTY, view.seq + 1);
  };
  /** The session is not there any more: what was not sent waits for another. */
  const forget = (): void => {
    reading.abort();
    memory.save(null);
    if (home.id !== null) memory.hold(home.id, []);
    held = "";
    home.id = null;
    set({ ...FRESH, agent: now.agent, lost: true, talk: now.talk, outbox: now.outbox.map((each) => ({ ...each, since: 0 })) });
  };
  /** The conversation that is shown was opened as *id*: what was written in it goes along. */
  const settle = (id: string): void => {
    memory.keep(id, memory.draft(null));
    memory.keep(null, "");
    memory.attach(id, memory.files(null));
    memory.attach(null, []);
    memory.hold(null, []);
    held = "";
    proceed(id, EMPTY);
  };
  const ensure = (mine: Home): Promise<string> => {
    if (mine.id !== null) return Promise.resolve(mine.id);
    mine.opening ??= client
      .open(options.agent, signal)
      .then((id) => {
        if (mine === home) settle(id);
        return (mine.id = id);
      })
      .finally(() => (mine.opening = null));
    return mine.opening;
  };

  const deliver = async (outgoing: Outgoing, mine: Home, again = true): Promise<void> => {
    const { key, text, files } = outgoing;
    const used = await ensure(mine);
    if (mine === home && !now.outbox.some((each) => each.key === key)) return;
    try {
      const posted = await client.post(used, text, key, signal, files.map(({ file }) => file));
      set({ outbox: arrived(now.outbox, key, posted.seq) });
    } catch (error) {
      const { status, code } = asProblem(error);
      if (!again) throw error;
      if (code === "session_closed" && (await (await whole()).move(mine))) return deliver(outgoing, mine, false);
      if (status !== 404) throw error;
      if (mine.id === used && mine === home) forget();
      if (mine.id !== null) throw error;
      await deliver(outgoing, mine, false);
    }
  };
  const enqueue = (outgoing: Outgoing, mine = home): void => {
    const fail = (error: unknown): void => {
      const { key } = outgoing;
      const problem = asProblem(error);
      if (mine.id !== home.id) return memory.reclaim(mine.id, [outgoing]); // its conversation is not on the screen
      if (mine === home && !isRefusal(problem)) return setOutgoing(key, { status: "failed", problem });
      set({ outbox: now.outbox.filter((each) => each.key !== key), refused: { ...outgoing, problem } });
    };
    queue = queue.then(() => deliver(outgoing, mine)).catch(fail);
  };

  const say = (text: string, files: readonly SentFile[] = [], mine = home): void => {
    const outgoing: Outgoing = { key: (mine === home && keyOfSame(now.refused, text, files)) || options.newKey(), text, files, status: "sending", since: now.view.seq };
    if (mine === home) set({ outbox: [...now.outbox, outgoing], refused: null });
    enqueue(outgoing, mine);
  };
  const whole = async (): Promise<Talks> => (await options.more()).talks({ client, memory, signal, home: () => home, view: () => now.view, show, proceed, say });
  /** Do *what* with whole conversations; whether it was done. */
  const attempt =
    <K extends keyof Talks>(what: K) =>
    async (...given: Parameters<Talks[K]>): Promise<boolean> => {
      try {
        return await ((await whole())[what] as (...all: unknown[]) => Promise<boolean>)(...given);
      } catch (error) {
        set({ problem: asProblem(error) });
        return false;
      }
    };

  return {
    start() {
      memory.watch((to, from) => {
        if (from === home.id && !home.opening) proceed(to, EMPTY);
      }, signal);
      memory.reclaim(home.id);
      options.changed(now);
      learn();
      if (home.id === null) return;
      follow(home.id);
      recall(home.id);
    },
    send: (text, files) => say(text, files),
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
    feedback(run, rating, comment) {
      const before = now.feedback?.[run] ?? { rating: null };
      const mark = (given: Given): void => set({ feedback: { ...now.feedback, [run]: given } });
      mark({ rating, comment, sending: true });
      client.feedback(run, rating, comment, signal).then(
        () => mark({ rating, comment, sending: false }),
        (error: unknown) => mark({ ...before, sending: false, problem: asProblem(error) }),
      );
    },
    renew: () => show(null),
    edit: attempt("edit"),
    regenerate: attempt("regenerate"),
    open: attempt("open"),
    rename: attempt("rename"),
    remove: attempt("remove"),
    draft: () => memory.draft(home.id),
    write: (text) => memory.keep(home.id, text),
    attached: () => memory.files(home.id),
    attach: (files) => memory.attach(home.id, files),
    read: memory.seen,
    seen() {
      if (!visible()) return;
      if (home.id !== null && now.view.seq) memory.see(home.id, now.view.seq);
      if (now.unread) set({ unread: 0 });
    },
    older: () => void older().catch((error: unknown) => set({ problem: asProblem(error) })),
    reconnect,
    refresh: () => (now.link === "broken" ? reconnect() : learn()),
    dismiss: () => set({ problem: null, lost: false }),
  };
}

function linked(controller: AbortController, parent: AbortSignal): AbortSignal {
  parent.addEventListener("abort", () => controller.abort(), { once: true, signal: controller.signal });
  return controller.signal;
}
