/** What the page says of where the person is, and with which message it goes out. */

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

/** Return what goes with the message *key* of *session*: the context, once after each change; the same when the message is repeated. */
export function contextOf(held: HeldContext): (session: string, key: string) => string | undefined {
  const said = new Map<string, string>();
  const sent = new Map<string, string | undefined>();
  return (session, key) => {
    if (!sent.has(key)) sent.set(key, held.current !== null && said.get(session) !== held.current ? held.current : undefined);
    const context = sent.get(key);
    if (context !== undefined) said.set(session, context);
    return context;
  };
}
