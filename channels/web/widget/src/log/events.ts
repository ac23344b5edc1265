/** The frames of a session's stream: facts, which have a `seq`, and live events, which have none. */

export type Outcome = "done" | "failed" | "denied" | "cancelled" | "unknown";
export type Stop = "done" | "tools" | "length" | "continue" | "refused" | "cancelled" | "error";
export type WaitingOn = "approval" | "client" | "run";

/** A source of a stretch of text; `start` and `end` are in Unicode code points of that part. */
export interface Citation {
  readonly start?: number;
  readonly end?: number;
  readonly text?: string;
  readonly title?: string;
  readonly url?: string;
  readonly source?: string;
  readonly index?: number;
}
export interface TextPart {
  readonly type: "text";
  readonly text: string;
  readonly citations?: readonly Citation[];
}
export interface ReasoningPart {
  readonly type: "reasoning";
  readonly text: string;
}
/** `arguments` is missing where the reader may not see them. */
export interface ToolCallPart {
  readonly type: "tool_call";
  readonly call: string;
  readonly name: string;
  readonly arguments?: Readonly<Record<string, unknown>>;
}
export interface ToolResultPart {
  readonly type: "tool_result";
  readonly call: string;
  readonly outcome: Outcome;
  readonly parts?: readonly Part[];
}
export interface FilePart {
  readonly type: "file";
  readonly file: string;
  readonly name: string;
  readonly mime: string;
  readonly size: number;
}
export interface RenderPart {
  readonly type: "render";
  readonly render: string;
}
export type Part = TextPart | ReasoningPart | ToolCallPart | ToolResultPart | FilePart | RenderPart;

export interface Delta {
  readonly message: string;
  readonly part: number;
  readonly epoch: number;
  readonly attempt: number;
  /** In Unicode code points of that part. */
  readonly offset: number;
  readonly text: string;
}

/** Which field of a request is wrong, and why. */
export interface Fault {
  readonly path: string;
  readonly message: string;
}

export interface Person {
  readonly id: string;
  readonly kind?: string;
  readonly name?: string | null;
}

interface Asked {
  readonly approval: string;
  readonly call: string;
  /** Missing where the reader may not see them. */
  readonly arguments?: Readonly<Record<string, unknown>>;
}

interface Bodies {
  "message.received": { message: string; parts: readonly Part[] };
  /** Without parts the message was deleted. */
  "message.corrected": { message: string; parts: readonly Part[] };
  "text.delta": Delta;
  "reasoning.delta": Delta;
  "message.completed": {
    message: string;
    role: "user" | "assistant";
    parts: readonly Part[];
    partial?: boolean;
    stop: Stop;
    /** The person who answered in the agent's place. */
    actor?: Person;
  };
  /** `inputs` are messages that an ended run left to this one. */
  "run.queued": { inputs?: readonly number[] };
  "run.started": { epoch: number };
  "run.waiting": { on: readonly WaitingOn[] };
  "run.resumed": { epoch: number; cause: string };
  /** With `clears` what joined the run opens no next one. */
  "run.cancelling": { clears?: boolean };
  /** `structured` is the answer as a value, where one was asked for. */
  "run.completed": { stop_reason: string; structured?: unknown };
  "run.failed": { code: string; message: string; retryable?: boolean };
  "run.cancelled": { reason?: string | null };
  "step.started": { n: number; attempt: number; message: string; takes?: readonly number[]; vision?: boolean };
  /** The model's provider refused a part of the conversation; `names` are those of files that people sent. */
  "content.left_out": { names?: readonly string[] };
  "step.failed": { n: number; attempt: number; retryable: boolean };
  "tool.requested": { call: string; name: string; title?: string; title_done?: string; step?: number; arguments?: Readonly<Record<string, unknown>> };
  "tool.started": { call: string };
  "tool.progress": { call: string; text: string };
  /** A call of the client comes with its name and the arguments to execute it with. */
  "tool.pending": { call: string; on: WaitingOn; tool?: string; arguments?: Readonly<Record<string, unknown>> };
  "tool.completed": { call: string; outcome: Outcome; parts?: readonly Part[]; truncated?: boolean };
  "approval.requested": Asked & {
    tool: string;
    title: string;
    detail?: string;
    responders: readonly string[];
    quorum: number;
    /** In seconds from the frame's time on. */
    timeout_s: number;
    edit?: boolean;
    remember?: boolean;
    /** Whether this reader is among those who may decide, where the server says so. */
    may_decide?: boolean;
    /** The JSON Schema of `arguments`, where the tool itself asks people to fill them in. */
    form?: Readonly<Record<string, unknown>>;
    /** The JSON Schema of `arguments`, for labels and fields. */
    parameters?: Readonly<Record<string, unknown>>;
  };
  "approval.voted": Asked & { votes: number; edited?: boolean };
  "approval.decided": Asked & {
    status: "approved" | "denied" | "expired" | "cancelled";
    by?: Person;
    reason?: string;
    edited?: boolean;
  };
  /** `payload` is for a renderer of the kind, `text` for who has none. */
  "render.shown": { render: string; call: string; kind: string; title?: string; payload: Readonly<Record<string, unknown>>; text: string };
}

interface Envelope {
  readonly seq?: number;
  readonly session?: string;
  readonly run: string | null;
  readonly parent_run: string | null;
  readonly time: string;
}

/** A frame of a type that this widget knows; `data` is as the contract gives it. */
export type KnownFrame = { [T in keyof Bodies]: Envelope & { readonly type: T; readonly data: Readonly<Bodies[T]> } }[keyof Bodies];
/** A frame as it arrives: event types may be added at any time. */
export type Frame = KnownFrame | (Envelope & { readonly type: `${string}.${string}` | "heartbeat"; readonly data: object });
