/** What a developer has to set otherwise for the widget to work: asked of the page's own token route, then of the server. */

import { isLoopback } from "../host/loopback.js";
import type { GetToken, IssuedToken } from "../wire/token.js";

export interface Setup {
  /** The page's own address. */
  readonly page: string;
  /** As the attribute has it, without a slash at its end; empty for the page's own origin. */
  readonly server: string;
  readonly agent: string | null;
  readonly token: string | null;
  readonly tokenUrl: string | null;
  readonly anonymous: boolean;
  readonly getToken: GetToken | null;
  /** The widget's own token, which it asks for once. */
  readonly shared: () => Promise<string | null>;
  readonly fetch: typeof fetch;
  readonly signal: AbortSignal;
  /** Return whether the page's policy has refused the request that was made last. */
  readonly blocked: () => boolean;
}

/** What is wrong, and what to do about it. */
export interface Finding {
  readonly code: string;
  readonly fault: string;
  readonly remedy: string;
}

const MANUAL = "docs/widget.md";

/** Return the first thing that is wrong; null when a conversation can begin. */
export async function diagnose(setup: Setup): Promise<Finding | null> {
  const server = addressOf(setup);
  if (typeof server !== "string") return server;
  // First the token that the widget has itself: a route may make a visitor, with a cookie, each time it is asked.
  const shared = await attempt(setup.shared());
  const refused = shared ? await ask(setup, server, shared) : null;
  if (shared && refused?.code !== "token_invalid") return refused;
  const token = await tokenOf(setup, server);
  return typeof token === "string" ? await ask(setup, server, token) : token;
}

/** Return the server's address, or why it can be none. */
function addressOf({ page, server }: Setup): string | Finding {
  let address: URL;
  try {
    address = new URL(server || "/", page);
  } catch {
    return found("server_invalid", `\`${server}\` in the attribute \`server\` is no address.`, "Write it like https://parley.example.");
  }
  const isMixed = new URL(page).protocol === "https:" && address.protocol === "http:" && !isLoopback(address.hostname);
  if (isMixed) return found("insecure", `This page came by https and the server is ${address.origin}: browsers refuse that.`, "Serve Parley by https, and write the address so in `server`.");
  return server;
}

async function tokenOf(setup: Setup, server: string): Promise<string | Finding> {
  const { getToken, tokenUrl, token, anonymous } = setup;
  if (getToken) return ofFunction(getToken);
  if (tokenUrl !== null) return ofRoute(setup, tokenUrl);
  if (token !== null) return token;
  if (anonymous) return ofAnonymous(setup, server);
  const ways = "`token-url`, a route of your site that makes visitors' tokens; the property `getToken`; or `anonymous`, where the agent allows it";
  return found("token_none", "The widget has no way to a visitor's token.", `Give it ${ways} (${MANUAL}).`);
}

async function ofFunction(getToken: GetToken): Promise<string | Finding> {
  try {
    const given: unknown = await getToken();
    return ofAnswer(typeof given === "string" ? { token: given } : given, "`getToken`");
  } catch (error) {
    return found("get_token", `\`getToken\` has failed: ${String(error)}`, "It has to give a token, or {token, expires_at}.");
  }
}

async function ofRoute(setup: Setup, url: string): Promise<string | Finding> {
  const asked = await attempt(setup.fetch(url, { credentials: "same-origin", cache: "no-store", signal: setup.signal }));
  const route = `The token route ${url}`;
  const make = `It has to answer {token, expires_at} as POST /v1/web/visitor-tokens of the server gave it (${MANUAL}).`;
  if (!asked) return setup.blocked() ? policy(new URL(url, setup.page).origin) : found("token_unreachable", `${route} cannot be reached.`, "Look whether your site is up, and whether the address in `token-url` is of this page's origin.");
  const { status } = asked;
  if (status === 404) return found("token_missing", `${route} is not there: 404.`, `Add it to your site, or correct \`token-url\`. ${make}`);
  if (status === 401 || status === 403) return found("token_refused", `${route} has refused: ${status}.`, "Does it ask people to be signed in who are not? Show the widget to those alone who are, or use `anonymous`.");
  if (!asked.ok) return found("token_failing", `${route} has failed: ${status}.`, `Look into your site's log. A wrong PARLEY_API_KEY there is 401 at Parley. ${make}`);
  const body: unknown = await attempt(asked.json());
  if (body === null) return found("token_not_json", `${route} answered ${asked.headers.get("Content-Type") ?? "something"} and not JSON.`, `A sign-in page, or the page of a single-page application? ${make}`);
  return ofAnswer(body, route);
}

/** Return the token in *body*, that *source* gave. */
function ofAnswer(body: unknown, source: string): string | Finding {
  const { token, expires_at: ends } = (body ?? {}) as Partial<IssuedToken>;
  if (typeof token !== "string" || !token) return found("token_shape", `${source} answered without a \`token\`.`, "Pass on the body that POST /v1/web/visitor-tokens answered, as it is: {token, expires_at}.");
  if (ends !== undefined && !(Date.parse(ends) > Date.now())) return found("token_expired", `${source} gave a token that has expired: ${String(ends)}.`, "Ask for a new one each time, keep it in no cache, and look at the clocks of site and browser.");
  return token;
}

async function ofAnonymous(setup: Setup, server: string): Promise<string | Finding> {
  const body = JSON.stringify(setup.agent === null ? {} : { agent: setup.agent });
  const init = { method: "POST", body, headers: { "Content-Type": "application/json" }, credentials: "omit" as const, signal: setup.signal };
  const asked = await reached(setup, server, () => setup.fetch(`${server}/v1/web/anonymous`, init));
  if ("fault" in asked) return asked;
  const answer = await detailOf(asked);
  if (asked.ok) return typeof answer.token === "string" ? answer.token : notParley(setup, server);
  if (asked.status === 404 || asked.status === 422) return found("agent_unknown", `There is no agent ${setup.agent ?? ""} for visitors without a name. ${answer.detail}`, "Look at the attribute `agent`, and at `web: {anonymous: {origins: […]}}` of that agent.");
  return found("anonymous_refused", `Visitors without a name are refused here: ${asked.status}. ${answer.detail}`, `Add ${new URL(setup.page).origin} to the agent's \`web: {anonymous: {origins: […]}}\`.`);
}

/** Ask the server for the agent of *token*. */
async function ask(setup: Setup, server: string, token: string): Promise<Finding | null> {
  const init = { headers: { Authorization: `Bearer ${token}` }, credentials: "omit" as const, cache: "no-store" as const, signal: setup.signal };
  const asked = await reached(setup, server, () => setup.fetch(`${server}/v1/web/agent`, init));
  if ("fault" in asked) return asked;
  const answer = await detailOf(asked);
  if (asked.status === 401) return found("token_invalid", `The server does not accept the token: ${answer.detail || "401"}`, "Is it of this server (`server`)? One with another PARLEY_SECRET_KEY, or an API key in the place of a visitor's token, is refused.");
  if (asked.status === 404 && answer.code) return found("agent_unknown", `The agent of the token is not there. ${answer.detail}`, "Make tokens for an agent that the server has: `parley agents list`.");
  if (asked.status >= 500) return found("server_failing", `The server has failed: ${asked.status}.`, "Look into its log, and at /readyz.");
  if (!asked.ok) return answer.code ? found("refused", `The server has refused: ${asked.status}. ${answer.detail}`, "See what it says.") : notParley(setup, server);
  if (!answer.agent) return notParley(setup, server);
  const { id, name } = answer.agent;
  if (setup.agent === null || setup.agent === id || setup.agent === name) return null;
  return found("agent_other", `The token is for the agent ${name}, and the attribute \`agent\` says ${setup.agent}.`, "Make the token for that agent, or correct the attribute: a token is for one agent.");
}

/**
 * Return what *ask* gets of the server. Without an answer, tell a server that cannot be reached, also one whose proxy answers meanwhile,
 * from one that this page may not read: any page may read the widget's files.
 */
async function reached(setup: Setup, server: string, ask: () => Promise<Response>): Promise<Response | Finding> {
  const asked = await attempt(ask());
  if (asked) return asked;
  if (setup.blocked()) return policy(new URL(server || "/", setup.page).origin);
  const file = await attempt(setup.fetch(`${server}/widget/parley-loader.js`, { credentials: "omit", cache: "no-store", signal: setup.signal }));
  const again = file?.ok ? await attempt(ask()) : null; // it may have come up in between
  if (again) return again;
  const { origin } = new URL(setup.page);
  if (file?.ok) return found("origin", `The server does not let pages of ${origin} in.`, `Add it to the server's setting: PARLEY_ORIGINS=${origin} (several with commas), and start it again.`);
  return found("server_dead", `The server ${server || origin} cannot be reached.`, "Is it running, and is its address in the attribute `server`, with the port? Is the certificate one that browsers accept?");
}

function policy(origin: string): Finding {
  return found("policy", "The content security policy of this page refuses the request.", `Add ${origin} to its connect-src (${MANUAL}).`);
}

function notParley({ page }: Setup, server: string): Finding {
  return found("not_parley", `What answers at ${server || new URL(page).origin} is not Parley.`, "Correct the attribute `server`: without one the page's own origin is asked.");
}

interface Said {
  readonly code: string;
  readonly detail: string;
  readonly token?: unknown;
  readonly agent?: { readonly id: string; readonly name: string };
}

/** Return what the body of *response* says; empty texts where it is not JSON. */
async function detailOf(response: Response): Promise<Said> {
  const body = (await attempt(response.json() as Promise<object>)) ?? {};
  const { code, detail } = body as Record<string, unknown>;
  return { ...body, code: typeof code === "string" ? code : "", detail: typeof detail === "string" ? detail : "" };
}

async function attempt<T>(given: Promise<T>): Promise<T | null> {
  try {
    return await given;
  } catch {
    return null;
  }
}

function found(code: string, fault: string, remedy: string): Finding {
  return { code, fault: fault.trim(), remedy };
}
