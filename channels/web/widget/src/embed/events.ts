/** The events of the element: what each of them says. All bubble, and leave the shadow roots they are in. */

import type { Call } from "../log/state.js";

/** The detail of the event `parley:tool-call`: a call that the page is to execute. */
export interface ToolCallDetail {
  readonly call: string;
  readonly run: string;
  readonly name: string;
  readonly arguments: Readonly<Record<string, unknown>>;
  /** The same as JSON, with every digit of numbers that JavaScript rounds. */
  readonly argumentsText: string;
  /** Hand in the output, text or anything that JSON holds; whether it counted. */
  respond(output: unknown): Promise<boolean>;
  /** Report to the assistant that it did not work, and why. */
  fail(message: string): Promise<boolean>;
}

/** A message: the person's before it is sent (cancelable: then it is not sent), an answer once it is complete. */
export interface MessageDetail {
  readonly role: "user" | "assistant";
  readonly text: string;
  /** Its id, once the server has it. */
  readonly id?: string;
}

/** A call of a tool whose status has changed. */
export interface ToolDetail {
  readonly call: string;
  readonly run: string | null;
  readonly name: string;
  readonly title?: string;
  readonly status: Call["status"];
}

/** A question to people that was asked, or has its outcome. */
export interface ApprovalDetail {
  readonly approval: string;
  readonly call: string;
  readonly tool: string;
  readonly title: string;
  readonly status: "open" | "approved" | "denied" | "expired" | "cancelled";
}

/** What the person thinks of an answer. */
export interface FeedbackDetail {
  readonly run: string;
  readonly rating: "up" | "down";
  readonly comment?: string;
}

/** What went wrong: *code* as in `strings.problems`, *status* of HTTP or 0. */
export interface ErrorDetail {
  readonly code: string;
  readonly status: number;
  readonly message: string;
}

/** How many answers have come that the person has not seen. */
export interface UnreadDetail {
  readonly count: number;
}

/** The events by name; `parley:message` of the person, `parley:open` and `parley:tool-call` are cancelable. */
export interface ParleyEventMap {
  "parley:ready": CustomEvent<null>;
  "parley:open": CustomEvent<null>;
  "parley:close": CustomEvent<null>;
  "parley:message": CustomEvent<MessageDetail>;
  "parley:tool": CustomEvent<ToolDetail>;
  "parley:tool-call": CustomEvent<ToolCallDetail>;
  "parley:approval": CustomEvent<ApprovalDetail>;
  "parley:feedback": CustomEvent<FeedbackDetail>;
  "parley:error": CustomEvent<ErrorDetail>;
  "parley:unread": CustomEvent<UnreadDetail>;
}

export type Detail<K extends keyof ParleyEventMap> = ParleyEventMap[K]["detail"];
/** An event that is only observed. */
export type Happened = { readonly [K in keyof ParleyEventMap]: readonly [K, Detail<K>] }[keyof ParleyEventMap];

/** Raise an event of *host*; whether nothing has cancelled it. */
export function raise<K extends keyof ParleyEventMap>(host: HTMLElement, name: K, detail: Detail<K>, cancelable = false): boolean {
  return host.dispatchEvent(new CustomEvent(name, { detail, bubbles: true, composed: true, cancelable }));
}
