/** What works for the element: a client, one conversation, and its view, for as long as nothing is set otherwise. */

import type { Frame } from "../log/events.js";
import type { Call } from "../log/state.js";
import { load } from "../lazy.js";
import { createView, type View } from "../frame/view.js";
import { converse, type Actions, type Conversation } from "../talk/conversation.js";
import { browserMemory } from "../talk/storage.js";
import { createClient, type Client } from "../wire/client.js";
import { pause } from "../wire/pause.js";
import { tokenSource, type GetToken, type TokenSource } from "../wire/token.js";
import type { Strings } from "../words/strings.js";
import { contextOf, type HeldContext } from "./context.js";
import { serverOf, storageKeyOf } from "./attributes.js";
import { raise } from "./events.js";

export interface Wired {
  readonly actions: Actions;
  readonly view: View;
}

/** The token that `setToken` gave, until the server refuses it. */
export interface HeldToken {
  token: string | null;
  /** Called with the token that `setToken` gives, where one is awaited. */
  arrived?: (token: string) => void;
}

export interface WiringOptions {
  readonly tokens: TokenSource;
  readonly context: HeldContext;
  readonly strings: Strings;
  readonly signal: AbortSignal;
  /** Called with each value of the conversation, and the last fact that is older than the page. */
  readonly changed: (conversation: Conversation, backlog: number) => void;
  readonly called: (call: Call, isOpen: () => boolean, server: string) => void;
}

/** Return whether the browser remembers a conversation of *host*. */
export function isRemembered(host: HTMLElement): boolean {
  return browserMemory(storageKeyOf(host)).load() !== null;
}

/** Return the one source of the tokens of *host*, until *signal* ends it: a route may make a visitor each time it is asked. */
export function tokensOf(host: HTMLElement, held: HeldToken, getToken: GetToken | null, signal: AbortSignal): TokenSource {
  const own = getToken ?? anonymous(host, serverOf(host), host.getAttribute("agent"));
  const source = { token: host.getAttribute("token"), url: host.getAttribute("token-url"), getToken: own };
  const configured = tokenSource({ ...source, fetch: fetch.bind(globalThis), signal, now: Date.now });
  // An empty token is one that the page gives later, by `setToken`: nothing is asked of the server until the first.
  const isGivenLater = source.token === "" && source.url === null && own === null;
  let first: Promise<string> | null = isGivenLater && held.token === null ? new Promise((resolve) => (held.arrived = resolve)) : null;
  void first?.then(() => (first = null));
  return {
    get: () => (held.token !== null ? Promise.resolve(held.token) : (first ?? configured.get())),
    drop: (used) => {
      if (held.token === used) held.token = null;
      configured.drop(used);
    },
  };
}

/** Return what works for *host* as its attributes say; `options.signal` ends it. */
export function wire(host: HTMLElement, { tokens, context, strings, signal, changed, called }: WiringOptions): Wired {
  const server = serverOf(host);
  const agent = host.getAttribute("agent");
  const [named, links] = [host.getAttribute("conversation"), host.hasAttribute("links")];
  const ask = fetch.bind(globalThis);
  const client = createClient({ server, tokens, fetch: ask, pause, random: Math.random });
  let backlog = 0;
  let opened: string | null = null;
  const open: Client["open"] = async (...given) => (opened = await client.open(...given));
  /** Of a conversation that this page has not opened itself, what is older than the first connection is no news. */
  const follow: Client["follow"] = (session, follower, until) => {
    let begun = "";
    backlog = 0;
    const noted = (time: string): void => void (begun ||= session === opened ? "0" : time);
    const frame = (each: Frame): void => {
      if ("seq" in each && each.time < begun) backlog = each.seq;
      follower.frame(each);
    };
    return client.follow(session, { ...follower, opened: noted, frame }, until);
  };
  const withContext = contextOf(context);
  const post: Client["post"] = (session, text, key, until, files) => withContext(session, key, (said) => client.post(session, text, key, until, files, said));
  const parts: { view: View | null } = { view: null };
  const made = converse({
    client: { ...client, open, follow, post },
    agent,
    memory: browserMemory(storageKeyOf(host)),
    signal,
    newKey,
    visible: () => document.visibilityState === "visible" && (host.hasAttribute("launcher") ? host.hasAttribute("open") : !host.hidden),
    more: () => load("list"),
    called: (call, isOpen) => called(call, isOpen, server),
    changed: (each) => (parts.view?.show(each), changed(each, backlog)),
  });
  const actions: Actions = {
    ...made,
    send: (text, ...rest) => raise(host, "parley:message", { role: "user", text }, true) && made.send(text, ...rest),
  };
  const view = (parts.view = createView({ strings, actions, request: client.request, access: client.access, load, links, signal }));
  void load("markdown").catch(() => undefined); // it is tried again with the first text
  document.addEventListener("visibilitychange", made.seen, { signal });
  if (links || named !== null) void load("list").then(({ openLinked }) => openLinked(made, named, links, signal, storageKeyOf(host)), () => undefined);
  return { actions, view };
}

/** Return how a visitor without a name gets a token, where the page asks for that. */
function anonymous(host: HTMLElement, server: string, agent: string | null): GetToken | null {
  if (!host.hasAttribute("anonymous") || host.hasAttribute("token-url")) return null;
  return async () => (await load("anonymous")).anonymousToken(server, agent, storageKeyOf(host));
}

/** Return an idempotency key; `randomUUID` is missing on pages that are not served securely. */
function newKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
