/** What the page around an element learns of it: events of its conversation, and what its developer has to set otherwise. */

import type { HeldToken } from "../embed/wiring.js";
import { raise } from "../embed/events.js";
import type { Load } from "../lazy.js"; // a chunk knows no hashes: what loads others is given to it
import type { Conversation } from "../talk/conversation.js";
import type { GetToken, TokenSource } from "../wire/token.js";
import { serverOf } from "../embed/attributes.js";
import { isLoopback } from "./loopback.js";
import { happened } from "./observe.js";

/** Called with each value of the conversation, and the last fact that is older than the page. */
export type Observe = (now: Conversation, backlog: number) => void;

/** Codes of problems that are the site's, and not the person's or the network's alone. */
const SITES = new Set(["token", "network", "origin", "unauthorized", "forbidden", "not_found"]);

/** Return what observes the conversations of *host*, until *signal* ends it. */
export function attend(host: HTMLElement, load: Load, held: HeldToken, getToken: GetToken | null, tokens: TokenSource, signal: AbortSignal): Observe {
  let before: Conversation | null = null;
  let looked = false;
  const look = async (isShown: boolean): Promise<void> => {
    if (looked) return;
    looked = true;
    const given = (name: string): string | null => host.getAttribute(name);
    const { report } = await load("notice");
    const setup = { agent: given("agent"), token: held.token ?? given("token"), tokenUrl: given("token-url"), anonymous: host.hasAttribute("anonymous") };
    await report(host, { ...setup, page: location.href, server: serverOf(host), getToken, shared: () => tokens.get(), fetch: fetch.bind(globalThis), signal }, isShown);
  };
  const isTrying = isLoopback(location.hostname) || host.hasAttribute("debug");
  // An empty token is one that the page has not got yet: `setToken` gives it.
  if (isTrying && host.getAttribute("token") !== "") void look(true);
  return (now, backlog) => {
    for (const [name, detail] of before ? happened(before, now, backlog) : []) {
      raise(host, name, detail as never);
      if (name === "parley:error" && SITES.has(detail.code)) void look(isTrying);
    }
    before = now;
  };
}
