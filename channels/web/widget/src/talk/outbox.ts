/** What a person has written and the log does not show yet: pure moves over a list. */

import { isUnread, type Problem } from "../wire/problem.js";
import type { Part } from "../log/events.js";
import type { SentFile } from "../wire/upload.js";
import { textOf, type Message, type ViewState } from "../log/state.js";

export interface Outgoing {
  /** Its idempotency key. */
  readonly key: string;
  readonly text: string;
  readonly files: readonly SentFile[];
  readonly status: "sending" | "sent" | "failed";
  /** It lies beyond this fact of the log. */
  readonly since: number;
  /** The fact that brought it into the log, once the server has answered. */
  readonly seq?: number;
  readonly problem?: Problem;
}

/** Return the key of *refused* if *text* and *files* are that same message, and it may have arrived: sent again it is said once. */
export function keyOfSame(refused: Outgoing | null | undefined, text: string, files: readonly SentFile[]): string | null {
  const isAgain = refused?.problem && isUnread(refused.problem) && refused.text === text && ids(refused.files) === ids(files);
  return isAgain ? refused.key : null;
}

function ids(files: readonly SentFile[]): string {
  return files.map(({ file }) => file).join(" ");
}

/** Return *outbox* after the post of *key* was answered; messages go out in order, so those after it are beyond *seq*. */
export function arrived(outbox: readonly Outgoing[], key: string, seq: number): readonly Outgoing[] {
  const at = outbox.findIndex((each) => each.key === key);
  return outbox.map((each, index) => {
    if (index === at) return { ...each, status: "sent", seq };
    return at >= 0 && index > at ? { ...each, since: Math.max(each.since, seq) } : each;
  });
}

/** Return *outbox* without what *view* shows by now; what is being posted stays until its answer is there. */
export function pruned(outbox: readonly Outgoing[], view: ViewState): readonly Outgoing[] {
  if (!outbox.length) return outbox;
  const hidden = unshown(outbox, view);
  return outbox.filter((each) => each.status === "sending" || hidden.includes(each));
}

/** Return what of *outbox* is not in the log yet: known by its fact or, while the answer to the post is on its way, by its text. */
export function unshown(outbox: readonly Outgoing[], view: ViewState): readonly Outgoing[] {
  const claimed = new Set<number>();
  return outbox.filter((each) => {
    const isText = ({ role, seq, parts }: Message): boolean => role === "user" && seq > each.since && !claimed.has(seq) && isSame(parts, each);
    const known = each.seq ?? view.messages.find(isText)?.seq;
    if (known !== undefined) claimed.add(known);
    return known === undefined || known > view.seq;
  });
}

/** The server may know a file by another id in the conversation: its name and size are what the message says of it. */
function isSame(parts: readonly Part[], { text, files }: Outgoing): boolean {
  const sent = parts.flatMap((part) => (part.type === "file" ? [`${part.size} ${part.name}`] : []));
  return textOf(parts) === text && sent.join("\n") === files.map(({ size, name }) => `${size} ${name}`).join("\n");
}
