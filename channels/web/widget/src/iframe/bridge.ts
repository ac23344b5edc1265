/** Messages between the page of an iframe and the page around it: only with its parent, and only at an origin that is listed. */

import type { PageContext } from "../embed/context.js";
import type { IssuedToken } from "../wire/token.js";

/** What the page around may ask for without saying more. */
export type Wish = "open" | "close" | "focus" | "newConversation";
const WISHES: readonly string[] = ["open", "close", "focus", "newConversation"] satisfies Wish[];

/** Milliseconds after which a question for a token is asked again: the page around may not listen yet. */
const AGAIN = [500, 1_000, 2_000, 4_000];
/** Milliseconds until a question is given up. */
const LONGEST = 15_000;

export interface BridgeOptions {
  /** The window of the iframe. */
  readonly page: Window;
  /** The origins that may embed it. */
  readonly listed: readonly string[];
  /** There is a token that was not asked for, another person's perhaps. */
  token(given: IssuedToken): void;
  wish(wish: Wish): void;
  /** What the page around says of where the person is. */
  context(given: PageContext | null): void;
  /** The page around executes the calls of these tools, and of no others. */
  tools(names: readonly string[]): void;
  /** What became of a call that the page around was given: its output, or why it did not work. */
  output(call: string, given: CallOutput): void;
}

export type CallOutput = { readonly output: unknown } | { readonly error: string };
type Said = Readonly<Record<string, unknown>>;

export interface Bridge {
  /** The origin of the page around, where it is known; empty where it is not. */
  readonly parent: string;
  post(message: Readonly<Record<string, unknown>> & { readonly type: string }): void;
  /** Ask the page around for a token. */
  getToken(): Promise<IssuedToken>;
}

/** Return the bridge to the parent of *options.page*. */
export function createBridge({ page, listed, token, wish, context, tools, output }: BridgeOptions): Bridge {
  const parent = parentOf(page, listed);
  let answer: ((message: Said) => void) | null = null;
  const received: { readonly [name: string]: (message: Said) => void } = {
    token: (message) => (answer ? answer(message) : isToken(message) && token(message)),
    setContext: ({ context: given }) => isContext(given) && context(given),
    tools: ({ names }) => isNames(names) && tools(names),
    "tool-output": ({ call, error, output: given = null }) => typeof call === "string" && output(call, typeof error === "string" ? { error } : { output: given }),
  };
  /** A browser delivers a message to the one origin that it names, and nothing to others. */
  const post: Bridge["post"] = (message) => {
    for (const origin of parent ? [parent] : listed) page.parent.postMessage(message, origin);
  };
  page.addEventListener("message", ({ source, origin, data }: MessageEvent<unknown>) => {
    if (source !== page.parent || source === page || !(parent ? origin === parent : listed.includes(origin))) return;
    const message = (typeof data === "object" && data !== null ? data : {}) as Said;
    const [scheme, name] = String(message["type"]).split(":") as [string, string?];
    if (scheme !== "parley" || !name) return;
    if (WISHES.includes(name)) return wish(name as Wish);
    if (Object.hasOwn(received, name)) received[name]?.(message);
  });
  const ask = (): Promise<IssuedToken> =>
    new Promise((resolve, reject) => {
      const send = (): void => post({ type: "parley:token" });
      const timers = [...AGAIN.map((time) => setTimeout(send, time)), setTimeout(() => end(() => reject(failed(503, "has given no token"))), LONGEST)];
      const end = (outcome: () => void): void => {
        timers.forEach(clearTimeout);
        answer = null;
        outcome();
      };
      answer = (message) => end(() => (isToken(message) ? resolve(message) : reject(failed(403, "has no token for this person"))));
      send();
    });
  let asking: Promise<IssuedToken> | null = null;
  return { parent, post, getToken: () => (asking ??= ask().finally(() => (asking = null))) };
}

/** Return the origin of the parent of *page*, if the browser says so and it is listed; the only one that is listed; else an empty text. */
function parentOf({ location, document }: Window, listed: readonly string[]): string {
  const [around] = location.ancestorOrigins ?? [];
  const said = around ?? (document.referrer && new URL(document.referrer).origin);
  return listed.find((each) => each === said) ?? (listed.length === 1 ? (listed[0] ?? "") : "");
}

function isContext(given: unknown): given is PageContext | null {
  return typeof given === "string" || (typeof given === "object" && !Array.isArray(given));
}

function isNames(given: unknown): given is readonly string[] {
  return Array.isArray(given) && given.every((each) => typeof each === "string");
}

function isToken(message: Said): message is Said & IssuedToken {
  const { token, expires_at: ends } = message;
  return typeof token === "string" && token !== "" && (ends === undefined || typeof ends === "string");
}

function failed(status: number, what: string): Error {
  return Object.assign(new Error(`The page around this iframe ${what}: its answer to \`parley:token\` is {type, token, expires_at}.`), { status });
}
