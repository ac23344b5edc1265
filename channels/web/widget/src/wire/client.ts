/** The HTTP client of one server: it opens sessions, posts, cancels, and follows a session's events through every interruption. */

import type { Vote } from "../talk/deciding.js";
import type { AgentFace } from "../talk/face.js";
import type { Feedback, Rating } from "../talk/feedback.js";
import type { Frame } from "../log/events.js";
import { parseFrame } from "./json.js";
import { onWake } from "./pause.js";
import { asProblem, isPassing, problemOf, refused, type Problem } from "./problem.js";
import { readEvents, type ServerEvent } from "./sse.js";
import type { TokenSource } from "./token.js";
import type { Access } from "./upload.js";

export interface ClientOptions {
  /** Without a slash at the end; empty for the page's own origin. */
  readonly server: string;
  readonly tokens: TokenSource;
  readonly fetch: typeof fetch;
  /** Sleep for so many milliseconds, or less when there is reason to wake up. */
  readonly pause: (milliseconds: number, signal: AbortSignal) => Promise<void>;
  readonly random: () => number;
}

export interface Posted {
  readonly message_id: string;
  readonly run_id: string;
  readonly seq: number;
}

/** What became of a call that this page executed. */
export type Output = { readonly call: string; readonly output: unknown } | { readonly call: string; readonly error: string };

export interface Follower {
  /** The last fact that is known, 0 for none: read again before every connection. */
  cursor(): number;
  frame(frame: Frame): void;
  link(state: "connecting" | "open" | "reconnecting"): void;
  /** The server's time at which a connection was opened, as events have it. */
  opened?(time: string): void;
  /** The connection begins after the fact *after*: what is older was left out, which needs a follower that can do without. */
  begins?(after: number): void;
  /** The cursor is not in the session's log: what is shown must be read again. */
  reset(): void;
}

export interface Client {
  /** Ask anything else of the server, with the visitor's token. */
  readonly request: Request;
  /** For what `fetch` cannot do: uploads that say how far they have come. */
  readonly access: Access;
  /** Read what the agent of the token shows of itself. */
  agent(signal: AbortSignal): Promise<AgentFace>;
  open(agent: string | null, signal: AbortSignal): Promise<string>;
  /** Send a message; *files* are ids of those that were uploaded. */
  post(session: string, text: string, key: string, signal: AbortSignal, files?: readonly string[], context?: string): Promise<Posted>;
  cancel(run: string, signal: AbortSignal): Promise<void>;
  decide(approval: string, vote: Vote, signal: AbortSignal): Promise<void>;
  /** Report that a question is on the screen. */
  opened(approval: string, signal: AbortSignal): Promise<void>;
  output(run: string, output: Output, signal: AbortSignal): Promise<void>;
  /** Rate an answer; a person's second rating replaces the first. */
  feedback(run: string, rating: Rating, comment: string | undefined, signal: AbortSignal): Promise<void>;
  /** Read what the visitor has said of the answers of *session*. */
  ratings(session: string, signal: AbortSignal): Promise<Feedback>;
  /** Follow *session* until *signal* ends it; throws a problem that no retry can solve. */
  follow(session: string, follower: Follower, signal: AbortSignal): Promise<void>;
  /** Read about *last* messages before the fact *before*, and where they begin: after the fact *after*. */
  page(session: string, before: number, last: number, signal: AbortSignal): Promise<LogPage>;
}

/** A part of a log that no run reaches out of. */
export interface LogPage {
  readonly after: number;
  readonly frames: readonly Frame[];
}

/** A rating as the server has it. */
interface Rated {
  readonly run: string;
  readonly rating: Rating;
  readonly comment: string | null;
}

/** Messages that are read first of a conversation, some screens of them; older ones when they are asked for. */
const RECENT = 30;
const SILENCE = 45_000; // the server sends a comment every 15 s
const STALE = 20_000; // of silence by the clock: after a sleep the connection may be dead, and timers have slept as well
const TRIES = 5;
/** Seconds that the server may ask to wait for before a person is asked to try again instead. */
const LONGEST = 10;
/** Which servers this page has asked, and whether any answer was readable: whether a page may read is a matter of page and server alone. */
const readable = new Map<string, boolean>();

/** Return a client; a request is repeated only where that is safe. */
export function createClient(options: ClientOptions): Client {
  const request = requester(options);
  const send = sender(options, request);
  return {
    request,
    access: options,
    agent: (signal) => patiently(options, signal, async () => (await (await request("/v1/web/agent", { signal, cache: "no-store" })).json()) as AgentFace),
    async open(agent, signal) {
      const session = await send<{ id: string }>("/v1/sessions", agent === null ? {} : { agent }, signal);
      return session.id;
    },
    post(session, text, key, signal, files = [], context) {
      const said = { ...((text || !files.length) && { text }), ...(files.length && { files }), ...(context && { context }) };
      return send<Posted>(`${pathOf(session)}/messages`, { ...said, idempotency_key: key }, signal);
    },
    async cancel(run, signal) {
      await send(`/v1/runs/${encodeURIComponent(run)}/cancel`, {}, signal);
    },
    async decide(approval, vote, signal) {
      await send(`/v1/approvals/${encodeURIComponent(approval)}`, vote, signal);
    },
    async opened(approval, signal) {
      await request(`/v1/approvals/${encodeURIComponent(approval)}`, { signal });
    },
    async output(run, output, signal) {
      await send(`/v1/runs/${encodeURIComponent(run)}/tool-outputs`, { outputs: [output] }, signal);
    },
    async feedback(run, rating, comment, signal) {
      await send(`/v1/runs/${encodeURIComponent(run)}/feedback`, { rating, comment }, signal);
    },
    async ratings(session, signal) {
      const given = (await (await request(`/v1/web/conversations/${encodeURIComponent(session)}/feedback`, { signal, cache: "no-store" })).json()) as { items: readonly Rated[] };
      return Object.fromEntries(given.items.map(({ run, rating, comment }) => [run, { rating, ...(comment && { comment }), sending: false, isOlder: true }]));
    },
    page: (session, before, last, signal) => patiently(options, signal, () => readPage(request, session, `?last=${last}&before=${before}`, signal)),
    follow: (session, follower, signal) => follow(options, request, session, follower, signal),
  };
}

export type Request = (path: string, init: RequestInit) => Promise<Response>;
export type Send = <T>(path: string, body: object, signal: AbortSignal) => Promise<T>;

function pathOf(session: string): string {
  return `/v1/sessions/${encodeURIComponent(session)}`;
}

/** Ask with the visitor's token, once more with a new one when it is refused; throws the problem of an answer that is none. */
export function requester({ server, tokens, fetch: ask }: ClientOptions): Request {
  const request = async (path: string, init: RequestInit, again: boolean): Promise<Response> => {
    const token = await tokens.get();
    const headers = new Headers(init.headers);
    if (token !== null) headers.set("Authorization", `Bearer ${token}`);
    if (!readable.has(server)) readable.set(server, false);
    const response = await ask(server + path, { ...init, headers, credentials: "omit" });
    readable.set(server, true);
    if (response.status === 401 && again) {
      tokens.drop(token);
      return request(path, init, false);
    }
    if (!response.ok) throw await problemOf(response);
    return response;
  };
  return (path, init) => request(path, init, true);
}

/** Post JSON, a few times while the reason for failing may pass: every post is safe to repeat. */
export function sender(options: ClientOptions, request: Request): Send {
  return <T>(path: string, body: object, signal: AbortSignal): Promise<T> => {
    const init = { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" }, signal };
    return patiently(options, signal, async () => (await (await request(path, init)).json()) as T);
  };
}

/** Return what *ask* gives, asked a few times while the reason for failing may pass. */
async function patiently<T>(options: ClientOptions, signal: AbortSignal, ask: () => Promise<T>): Promise<T> {
  const { pause, random, server } = options;
  for (let tries = 1; ; tries += 1) {
    try {
      return await ask();
    } catch (error) {
      signal.throwIfAborted();
      const problem = asProblem(error);
      if (!isPassing(problem) || (problem.retryAfter ?? 0) > LONGEST) throw problem;
      if (tries > TRIES) throw problem.status === 0 ? refused() : problem; // the server answers, but not this page
      if (tries === TRIES) {
        if (problem.status !== 0 || readable.get(server) !== false || !(await answers(options, signal))) throw problem;
        continue; // it may have come up in between
      }
      await pause(delay(tries, problem, random), signal);
    }
  }
}

/**
 * Return whether the server gives out its files, which any page may read: then it is this page whose questions it refuses.
 *
 * A server that this page may not ask looks like one that is away, and like a proxy before one that is away, whose answers no
 * page may read. So it is asked only where no try succeeded and no answer was ever readable.
 */
async function answers({ server, fetch: ask }: ClientOptions, signal: AbortSignal): Promise<boolean> {
  const asked = server && ask(`${server}/widget/parley-loader.js`, { credentials: "omit", cache: "no-store", signal });
  return asked ? asked.then(({ ok }) => ok, () => false) : false; // a page may ask its own origin
}

/** Why a connection is given up that was silent over a sleep: the next one is tried at once. */
const WOKEN = new Error("woken");

async function follow(options: ClientOptions, request: Request, session: string, follower: Follower, signal: AbortSignal): Promise<void> {
  let failures = 0;
  let isRecent = follower.begins !== undefined;
  follower.link("connecting");
  while (!signal.aborted) {
    let problem: Problem | null = null;
    const before = follower.cursor();
    try {
      await connect(request, session, follower, isRecent, signal);
    } catch (error) {
      if (signal.aborted) return;
      if (error === WOKEN) continue;
      problem = asProblem(error);
      if (isRecent && problem.status === 422) {
        isRecent = false; // a server of an older version, which gives no part of a log
        continue;
      }
      if (problem.code === "unknown_cursor" && before > 0) follower.reset();
      else if (!isPassing(problem)) throw problem;
    }
    if (signal.aborted) return;
    failures = follower.cursor() > before || !problem ? 1 : failures + 1;
    // A stream that ends well ends with its token or its process: what comes next is there before a person could read of it.
    if (problem) follower.link("reconnecting");
    await options.pause(delay(failures, problem, options.random), signal);
  }
}

/** Read the session's stream from the follower's cursor until it ends; without one, with *isRecent*, the newest part of it. */
async function connect(request: Request, session: string, follower: Follower, isRecent: boolean, signal: AbortSignal): Promise<void> {
  const cursor = follower.cursor();
  const headers = { Accept: "text/event-stream", ...(cursor > 0 && { "Last-Event-ID": String(cursor) }) };
  const watch = watchdog(SILENCE, signal);
  const query = cursor === 0 && isRecent ? `?last=${RECENT}` : "";
  try {
    const response = await request(`${pathOf(session)}/events${query}`, { headers, signal: watch.signal, cache: "no-store" });
    if (!response.body) return;
    if (query) follower.begins?.(afterOf(response));
    follower.opened?.(response.headers.get("Parley-Time") ?? "");
    follower.link("open");
    await readEvents(response.body, (event) => follower.frame(toFrame(event)), watch.touch);
  } catch (error) {
    throw watch.signal.reason === WOKEN ? WOKEN : error;
  } finally {
    watch.end();
  }
}

async function readPage(request: Request, session: string, query: string, signal: AbortSignal): Promise<LogPage> {
  const response = await request(`${pathOf(session)}/events${query}`, { headers: { Accept: "text/event-stream" }, signal, cache: "no-store" });
  const frames: Frame[] = [];
  if (response.body) await readEvents(response.body, (event) => void frames.push(toFrame(event)));
  return { after: afterOf(response), frames };
}

/** Return the fact after which *response* begins; 0 from a server that leaves nothing out. */
function afterOf({ headers }: Response): number {
  return Number(headers.get("Parley-After")) || 0;
}

/** Return the frame that *event* carries; the envelope and the data lie side by side in it. */
export function toFrame(event: ServerEvent): Frame {
  const { run = null, parent_run = null, time = "", session, ...data } = parseFrame(event.data) as Record<string, never>;
  return { ...(event.id !== null && { seq: Number(event.id) }), type: event.type, session, run, parent_run, time, data } as unknown as Frame;
}

/** Return the wait before the next try, in milliseconds: doubling from half a second to 20 s, half of it by chance. */
export function delay(failures: number, problem: Problem | null, random: () => number): number {
  const most = Math.min(20_000, 500 * 2 ** (failures - 1));
  return Math.max((problem?.retryAfter ?? 0) * 1000, most / 2 + (random() * most) / 2);
}

/** End the connection when *parent* ends or nothing has come for *silence* milliseconds. */
function watchdog(silence: number, parent: AbortSignal): { signal: AbortSignal; touch: () => void; end: () => void } {
  const controller = new AbortController();
  const abort = (): void => controller.abort();
  let received = Date.now();
  onWake(() => Date.now() - received > STALE && controller.abort(WOKEN), controller.signal);
  let timer = setTimeout(abort, silence);
  if (parent.aborted) abort();
  parent.addEventListener("abort", abort);
  return {
    signal: controller.signal,
    touch() {
      clearTimeout(timer);
      received = Date.now();
      timer = setTimeout(abort, silence);
    },
    end() {
      clearTimeout(timer);
      parent.removeEventListener("abort", abort);
      abort();
    },
  };
}
