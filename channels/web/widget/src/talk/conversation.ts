/** One person's conversation with one agent: the folded log, what is still on its way, and the state of the link. */

import type { Client, Output } from "../wire/client.js";
import { mayDecide, type Decisions, type Vote } from "./deciding.js";
import type { AgentFace } from "./face.js";
import type { Feedback, Given, Rating } from "./feedback.js";
import { arrived, pruned, type Outgoing } from "./outbox.js";
import { asProblem, type Problem } from "../wire/problem.js";
import { reduce } from "../log/reduce.js";
import { EMPTY, type Call, type ViewState } from "../log/state.js";
import type { SentFile } from "../wire/upload.js";
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
  /** What the agent shows of itself; null until it is known. */
  readonly agent: AgentFace | null;
  /** What was said of answers, none at first. */
  readonly feedback?: Feedback;
  /** How many answers the person has not seen. */
  readonly unread?: number;
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
}

export const FRESH: Conversation = { view: EMPTY, outbox: [], link: "idle", problem: null, lost: false, stopping: [], decisions: {}, agent: null };

/** Return what can be done in a conversation; *options.signal* ends it. */
export function converse(options: ConversationOptions): Actions {
  const { client, memory, signal } = options;
  let now = FRESH;
  let session = memory.load();
  let opening: Promise<string> | null = null;
  let reading = new AbortController();
  let queue: Promise<void> = Promise.resolve();
  const reported = new Set<string>();

  const set = (changes: Partial<Conversation>): void => {
    if (signal.aborted) return;
    const { calls } = now.view;
    const next = { ...now, ...changes };
    now = { ...next, outbox: pruned(next.outbox, next.view) };
    options.changed(now);
    if (now.view.calls !== calls) notice(now.view.calls);
  };
  const setOutgoing = (key: string, changes: Partial<Outgoing>): void =>
    set({ outbox: now.outbox.map((each) => (each.key === key ? { ...each, ...changes } : each)) });

  /** Read what the agent shows of itself: without it there is everything but that. */
  const learn = (): void => void client.agent(signal).then((agent) => set({ agent }), () => undefined);

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

  const follow = (id: string): void => {
    reading.abort();
    reading = new AbortController();
    const mine = linked(reading, signal);
    const follower = {
      cursor: () => now.view.seq,
      frame: (frame: Parameters<typeof reduce>[1]) => mine.aborted || set({ view: reduce(now.view, frame) }),
      link: (link: Conversation["link"]) => {
        if (mine.aborted) return;
        if (now.link === "reconnecting" && link === "open") learn(); // the server may be another by now
        set({ link });
      },
      reset: () => set({ view: EMPTY }),
    };
    client.follow(id, follower, mine).catch((error: unknown) => {
      if (mine.aborted) return;
      const problem = asProblem(error);
      if (problem.status === 404) forget(true);
      else set({ link: "broken", problem });
    });
  };

  const adopt = (id: string): void => {
    session = id;
    follow(id);
  };
  const forget = (lost: boolean): void => {
    reading.abort();
    if (memory.load() === session) memory.save(null); // unless another tab has gone on to a new one
    session = null;
    opening = null;
    set({ ...FRESH, agent: now.agent, lost, outbox: lost ? now.outbox.map((each) => ({ ...each, since: 0 })) : [] });
  };
  const ensure = (): Promise<string> => {
    if (session !== null) return Promise.resolve(session);
    opening ??= client
      .open(options.agent, signal)
      .then((id) => (memory.save(id), adopt(id), id))
      .finally(() => (opening = null));
    return opening;
  };

  const deliver = async (outgoing: Outgoing, again = true): Promise<void> => {
    const { key, text, files } = outgoing;
    const used = await ensure();
    if (!now.outbox.some((each) => each.key === key)) return;
    try {
      const posted = await client.post(used, text, key, signal, files.map(({ file }) => file));
      set({ outbox: arrived(now.outbox, key, posted.seq) });
    } catch (error) {
      if (asProblem(error).status !== 404 || !again) throw error;
      if (session === used) forget(true);
      await deliver({ ...outgoing, status: "sending", since: 0 }, false);
    }
  };
  const enqueue = (outgoing: Outgoing): void => {
    const fail = (error: unknown): void => setOutgoing(outgoing.key, { status: "failed", problem: asProblem(error) });
    queue = queue.then(() => deliver(outgoing)).catch(fail);
  };

  return {
    start() {
      memory.watch((id) => {
        if (session === null && !opening && id !== null) adopt(id);
      }, signal);
      options.changed(now);
      learn();
      if (session !== null) follow(session);
    },
    send(text, files = []) {
      const outgoing: Outgoing = { key: options.newKey(), text, files, status: "sending", since: now.view.seq };
      set({ outbox: [...now.outbox, outgoing] });
      enqueue(outgoing);
    },
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
    renew: () => forget(false),
    reconnect() {
      set({ problem: null });
      if (session !== null) follow(session);
    },
    dismiss: () => set({ problem: null, lost: false }),
  };
}

function linked(controller: AbortController, parent: AbortSignal): AbortSignal {
  parent.addEventListener("abort", () => controller.abort(), { once: true, signal: controller.signal });
  return controller.signal;
}
