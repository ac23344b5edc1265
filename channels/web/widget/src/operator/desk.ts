/** One conversation as an operator follows it: the folded log, what may be decided, and what was asked of the server. */

import type { Vote } from "../talk/deciding.js";
import type { Client } from "../wire/client.js";
import { FRESH, type Conversation } from "../talk/conversation.js";
import type { Frame } from "../log/events.js";
import { asProblem, type Problem } from "../wire/problem.js";
import { reduce } from "../log/reduce.js";
import { EMPTY, type ViewState } from "../log/state.js";
import type { Api, Reply } from "./api.js";
import { NO_LEDGER, note, type Ledger } from "./ledger.js";

export interface Desk {
  readonly conversation: Conversation;
  readonly ledger: Ledger;
  /** The server has no such conversation. */
  readonly missing: boolean;
  /** Approvals that this key may decide. */
  readonly decidable: ReadonlySet<string>;
}

export interface DeskActions {
  reconnect(): void;
  dismiss(): void;
  stop(run: string): void;
  decide(approval: string, vote: Vote): void;
  /** Say something as a person; throws the problem that kept it. */
  reply(reply: Reply): Promise<void>;
  /** Ask again what may be decided, after the key's scopes have changed. */
  review(): void;
}

export interface DeskOptions {
  readonly session: string;
  readonly client: Client;
  readonly api: Api;
  readonly changed: (desk: Desk) => void;
  readonly mayApprove: () => boolean;
  readonly signal: AbortSignal;
}

/** Follow *session* until *signal* ends it. */
export function openDesk({ session, client, api, changed, mayApprove, signal }: DeskOptions): DeskActions {
  let now: Desk = { conversation: FRESH, ledger: NO_LEDGER, missing: false, decidable: new Set() };
  let reading = new AbortController();
  const asked = new Set<string>();
  const arrived: Frame[] = [];

  const put = (desk: Partial<Desk>): void => {
    if (signal.aborted) return;
    now = { ...now, ...desk };
    changed(now);
  };
  const set = (changes: Partial<Conversation>): void => put({ conversation: { ...now.conversation, ...changes } });

  /** Find out once about each open question whether this key may decide it: the server knows the rules. */
  const learn = (view: ViewState): void => {
    if (!mayApprove()) return;
    for (const { approval } of view.calls) {
      if (approval?.status !== "open" || asked.has(approval.id)) continue;
      const { id } = approval;
      asked.add(id);
      api.mayDecide(id, signal).then(
        (may) => may && put({ decidable: new Set(now.decidable).add(id) }),
        () => asked.delete(id),
      );
    }
  };
  /** Fold what a piece of the stream brought, all of it at once: a long log is thousands of frames. */
  const fold = (): void => {
    const frames = arrived.splice(0);
    if (!frames.length) return;
    put({ conversation: { ...now.conversation, view: frames.reduce(reduce, now.conversation.view) }, ledger: note(now.ledger, frames) });
    if (frames.some(({ type }) => type === "approval.requested")) learn(now.conversation.view);
  };
  const take = (frame: Frame): void => {
    if (arrived.push(frame) === 1) queueMicrotask(fold);
  };
  const follow = (): void => {
    reading.abort();
    reading = new AbortController();
    const mine = AbortSignal.any([reading.signal, signal]);
    const follower = {
      cursor: () => (fold(), now.conversation.view.seq),
      frame: (frame: Frame) => mine.aborted || take(frame),
      link: (link: Conversation["link"]) => mine.aborted || set({ link }),
      reset: () => arrived.splice(0) && put({ conversation: { ...now.conversation, view: EMPTY }, ledger: NO_LEDGER }),
    };
    client.follow(session, follower, mine).catch((error: unknown) => {
      if (mine.aborted) return;
      const problem = asProblem(error);
      put({ missing: problem.status === 404, conversation: { ...now.conversation, link: "broken", problem } });
    });
  };
  follow();

  return {
    reconnect() {
      set({ problem: null });
      follow();
    },
    dismiss: () => set({ problem: null }),
    stop(run) {
      set({ stopping: [...now.conversation.stopping, run] });
      client.cancel(run, signal).catch((error: unknown) => {
        set({ stopping: now.conversation.stopping.filter((each) => each !== run), problem: asProblem(error) });
      });
    },
    decide(approval, vote) {
      const mark = (sending: boolean, problem?: Problem): void =>
        set({ decisions: { ...now.conversation.decisions, [approval]: { sending, ...(problem && { problem }) } } });
      mark(true);
      client.decide(approval, vote, signal).then(() => mark(false), (error: unknown) => mark(false, asProblem(error)));
    },
    reply: (reply) => api.reply(session, reply, signal),
    review() {
      asked.clear();
      put({ decidable: mayApprove() ? now.decidable : new Set() });
      learn(now.conversation.view);
    },
  };
}

/** Return *desk*'s conversation as its page shows it: what may be decided is known from the server, not guessed. */
export function shownOf({ conversation, decidable }: Desk): Conversation {
  const { view } = conversation;
  if (!view.calls.some(({ approval }) => approval?.status === "open")) return conversation;
  const calls = view.calls.map((call) => (call.approval?.status === "open" ? { ...call, approval: { ...call.approval, mayDecide: decidable.has(call.approval.id) } } : call));
  return { ...conversation, view: { ...view, calls } };
}
