/** What the browser shows of a session, as one frozen value. */

import type { Outcome, Part, Person, Stop, WaitingOn } from "./events.js";

export type RunStatus =
  | "queued"
  | "running"
  | "waiting"
  | "requires_action"
  | "completed"
  | "failed"
  | "cancelled";

export interface Run {
  readonly id: string;
  readonly status: RunStatus;
  readonly started: boolean;
  readonly cancelling: boolean;
  /** A try of the model has come to nothing, and another follows. */
  readonly trying?: boolean;
  /** One of its messages came with a picture. */
  readonly pictured?: boolean;
  /** The model that answers sees none. */
  readonly unseen?: boolean;
  /** What the model's provider refused, for good: the names of files, none where it was something else. */
  readonly leftOut?: readonly string[];
  readonly stopReason?: string;
  readonly code?: string;
  readonly error?: string;
  readonly retryable?: boolean;
}

export interface Message {
  readonly id: string;
  readonly role: "user" | "assistant";
  readonly run: string | null;
  /** The fact that brought it; 0 for an answer that is still open. */
  readonly seq: number;
  /** When it came, in milliseconds; 0 for an answer that is still open, and where the log does not say. */
  readonly time: number;
  /** None in a person's message that was deleted. */
  readonly parts: readonly Part[];
  /** Still being written. */
  readonly open: boolean;
  /** A person's message that no step has taken yet. */
  readonly pending: boolean;
  /** It joined a run that was already there, so that run's end does not settle it. */
  readonly steered: boolean;
  /** Its run ended before a step took it. */
  readonly missed: boolean;
  readonly partial: boolean;
  readonly stop: Stop | null;
  readonly epoch: number;
  readonly attempt: number;
  /** The person who answered in the agent's place. */
  readonly by?: Person;
}

/** What people are asked about a call. */
export interface Approval {
  readonly id: string;
  readonly tool: string;
  readonly title: string;
  readonly detail?: string;
  /** Those that run after a yes; missing where the reader may not see them. */
  readonly arguments?: Readonly<Record<string, unknown>>;
  readonly responders: readonly string[];
  readonly quorum: number;
  /** How many said yes. */
  readonly yes: number;
  /** When it is over, in milliseconds. */
  readonly until: number;
  readonly mayDecide?: boolean;
  /** The JSON Schema of the arguments; with `isForm` the tool asks people to fill them in. */
  readonly schema?: Readonly<Record<string, unknown>>;
  readonly isForm?: boolean;
  readonly edit: boolean;
  readonly remember: boolean;
  readonly status: "open" | "approved" | "denied" | "expired" | "cancelled";
  readonly edited: boolean;
  readonly by?: Person;
  readonly reason?: string;
  /** When it was decided, in milliseconds. */
  readonly at?: number;
}

export interface Call {
  readonly id: string;
  readonly run: string | null;
  readonly message: string | null;
  readonly name: string;
  /** What it does, in words for people, and what it did. */
  readonly title?: string | undefined;
  readonly titleDone?: string | undefined;
  /** When it was started last, in milliseconds. */
  readonly began?: number;
  /** How long it took, in whole seconds. */
  readonly seconds?: number | undefined;
  readonly status: "requested" | "running" | "waiting" | Outcome;
  readonly arguments?: Readonly<Record<string, unknown>>;
  readonly result?: readonly Part[];
  readonly truncated?: boolean;
  readonly progress?: string;
  /** Who has to finish it, while its status is `waiting`. */
  readonly on?: WaitingOn;
  readonly approval?: Approval;
}

export interface Render {
  readonly id: string;
  readonly call: string;
  /** The message that shows it. */
  readonly message: string | null;
  readonly kind: string;
  readonly title?: string;
  readonly payload: Readonly<Record<string, unknown>>;
  readonly text: string;
}

export interface ViewState {
  /** The last fact that is folded in. */
  readonly seq: number;
  /** In conversation order: those that no step has taken yet come last. */
  readonly messages: readonly Message[];
  readonly runs: readonly Run[];
  readonly calls: readonly Call[];
  readonly renders: readonly Render[];
  /** What is here begins after this fact: older ones were not read yet. Missing or 0: there are none. */
  readonly begin?: number;
  /** What became of messages that are older than that, by their ids. */
  readonly corrections?: Readonly<Record<string, readonly Part[]>>;
}

export const EMPTY: ViewState = { seq: 0, messages: [], runs: [], calls: [], renders: [] };

/** Return the run that Stop would stop: the one at work, else the first in the queue. */
export function activeRun(state: ViewState): Run | undefined {
  return state.runs.find((run) => isBusy(run) && run.status !== "queued") ?? state.runs.find(isBusy);
}

/** Return whether *run* has not come to its end. */
export function isBusy(run: Run): boolean {
  return run.status !== "completed" && run.status !== "failed" && run.status !== "cancelled";
}

/** Return the text parts of *parts*, joined by blank lines. */
export function textOf(parts: readonly Part[]): string {
  return parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n\n");
}
