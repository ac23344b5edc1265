/** What the page says of where the person is, and with which message it goes out. */

import { asProblem, isUnread } from "../wire/problem.js";

/** Text, or values that are sent as JSON. */
export type PageContext = string | Readonly<Record<string, unknown>>;

export interface HeldContext {
  current: string | null;
}

const MOST = 2_000; // characters; `MAX_PAGE_CONTEXT` of the server

/** Return *context* as the text that is sent; what is too long is refused with a RangeError. */
export function contextText(context: PageContext | null): string | null {
  const text = (typeof context === "string" ? context : context === null ? "" : JSON.stringify(context)).trim();
  if ([...text].length > MOST) throw new RangeError(`setContext: at most ${MOST} characters, and these are ${[...text].length}.`);
  return text || null;
}

/** Post a message with the context that goes with it. */
export type PostWith = <T>(session: string, key: string, post: (context?: string) => Promise<T>) => Promise<T>;

/**
 * Return what posts the message *key* of *session* with the context, once after each change.
 *
 * It counts as said when the post has succeeded. While it is not known what became of a message, it is repeated with the context
 * that it had: with another one it would be another message under the same key.
 */
export function contextOf(held: HeldContext): PostWith {
  const said = new Map<string, string>();
  const sent = new Map<string, string | undefined>();
  return async (session, key, post) => {
    if (!sent.has(key)) sent.set(key, held.current !== null && said.get(session) !== held.current ? held.current : undefined);
    const context = sent.get(key);
    try {
      const posted = await post(context);
      if (context !== undefined) said.set(session, context);
      sent.delete(key);
      return posted;
    } catch (error) {
      const problem = asProblem(error);
      if (problem.status >= 400 && problem.status < 500 && !isUnread(problem)) sent.delete(key);
      throw error;
    }
  };
}
