import assert from "node:assert/strict";
import { test } from "node:test";
import { createClient, delay, toFrame, type Client, type Follower } from "../src/wire/client.js";
import type { Frame } from "../src/log/events.js";
import { tokenSource } from "../src/wire/token.js";
import { json, problem, sse, standIn, stream, type Answer, type StandIn } from "./server.js";

interface Setting extends StandIn {
  readonly client: Client;
  readonly life: AbortController;
  readonly waits: number[];
}

function setting(answer: Answer, getToken = async () => "token_1" as string, address = "https://p.example"): Setting {
  const server = standIn(answer);
  const life = new AbortController();
  const waits: number[] = [];
  const pause = async (milliseconds: number): Promise<void> => void waits.push(milliseconds);
  const tokens = tokenSource({ token: null, url: null, getToken, fetch: server.fetch, signal: life.signal, now: () => 0 });
  return { ...server, life, waits, client: createClient({ server: address, tokens, fetch: server.fetch, pause, random: () => 1 }) };
}

function follower(frames: Frame[], on: Partial<Follower> = {}): Follower {
  return { cursor: () => frames.findLast(({ seq }) => seq !== undefined)?.seq ?? 0, frame: (frame) => frames.push(frame), link: () => undefined, reset: () => (frames.length = 0), ...on };
}

test("a session is opened for the agent, and a visitor's token may name it instead", async () => {
  const { client, seen, life } = setting(() => json(201, { id: "ses_1" }));
  assert.equal(await client.open("assistant", life.signal), "ses_1");
  await client.open(null, life.signal);
  assert.deepEqual(seen.map(({ method, path, body }) => [method, path, body]), [
    ["POST", "https://p.example/v1/sessions", { agent: "assistant" }],
    ["POST", "https://p.example/v1/sessions", {}],
  ]);
  assert.equal(seen[0]?.headers.get("Authorization"), "Bearer token_1");
});

const unread = (): never => {
  throw new TypeError("Failed to fetch");
};
const issued = async (): Promise<string> => "token_1";

test("a server that answers and never lets this page read is known from one that is away, after the normal tries", async () => {
  const proxy = (): Response => new Response("Bad gateway", { status: 502 });
  for (const [file, name, code, status] of [[() => new Response(), "there", "origin", 403], [proxy, "proxy", "network", 0], [unread, "away", "network", 0]] as const) {
    const { client, seen, waits, life } = setting(({ path }) => (path.endsWith("/widget/parley-loader.js") ? file() : unread()), issued, `https://${name}.example`);
    await assert.rejects(client.post("ses_1", "Hi", "k", life.signal), { code, status });
    const asked = [...Array(5).fill(true), false, ...(code === "origin" ? [true] : [])];
    assert.deepEqual([seen.map(({ path }) => path.endsWith("/messages")), waits], [asked, [500, 1000, 2000, 4000]]);
  }
});

test("a server that comes up between the last try and the question whether it answers gets the message", async () => {
  let isUp = false;
  const { client, life } = setting(({ path }) => {
    if (path.endsWith("/widget/parley-loader.js")) return (isUp = true), new Response();
    return isUp ? json(202, { message_id: "msg_1", run_id: "run_1", seq: 1 }) : unread();
  }, issued, "https://late.example");
  assert.equal((await client.post("ses_1", "Hi", "k", life.signal)).seq, 1);
});

test("a proxy's answers, which no page may read, are not taken for a refusal once the server was readable", async () => {
  let isAway = false;
  const server = "https://proxied.example";
  const answer: Answer = ({ path }) => (path.endsWith("/widget/parley-loader.js") ? new Response() : isAway ? unread() : json(201, { id: "ses_1" }));
  const { client, seen, life } = setting(answer, issued, server);
  await client.open(null, life.signal);
  isAway = true;
  await assert.rejects(client.post("ses_1", "Hi", "k", life.signal), { code: "network", status: 0 });
  const another = setting(answer, issued, server); // what the page knows outlasts a client
  await assert.rejects(another.client.post("ses_1", "Hi", "k", another.life.signal), { code: "network", status: 0 });
  assert.deepEqual([...seen, ...another.seen].filter(({ path }) => path.endsWith("/widget/parley-loader.js")), []);
});

test("a site's token route that is away says nothing of the server", async () => {
  const { client, seen, life } = setting(() => new Response(), async () => unread(), "https://unasked.example");
  await assert.rejects(client.post("ses_1", "Hi", "k", life.signal), { code: "network", status: 0 });
  assert.deepEqual(seen, []);
});

test("tries have an end, in whatever order a server is unreadable and unwell", async () => {
  for (let unwell = 0; unwell <= 5; unwell += 1) {
    const { client, seen, life } = setting(({ path }) => {
      if (path.endsWith("/widget/parley-loader.js")) return new Response();
      const posts = seen.filter((each) => each.path.endsWith("/messages")).length;
      if (posts > 6) return problem(400, "endless");
      return posts === unwell ? problem(503, "unavailable") : unread();
    }, issued, `https://unwell-${unwell}.example`);
    await assert.rejects(client.post("ses_1", "Hi", "k", life.signal), { status: unwell === 0 ? 403 : unwell === 5 ? 503 : 0 });
    assert.equal(seen.filter(({ path }) => path.endsWith("/messages")).length, unwell === 0 ? 6 : 5);
  }
});

test("a post that the network swallowed is sent again under the same key", async () => {
  let tries = 0;
  const { client, seen, life } = setting(() => {
    tries += 1;
    if (tries === 1) throw new TypeError("network");
    return tries === 2 ? problem(503, "unavailable") : json(202, { message_id: "msg_1", run_id: "run_1", seq: 3 });
  });
  assert.equal((await client.post("ses_1", "Hi", "key_1", life.signal)).message_id, "msg_1");
  assert.deepEqual(seen.map(({ body }) => body), Array(3).fill({ text: "Hi", idempotency_key: "key_1" }));
});

test("a post that was refused is not sent again, and says why", async () => {
  const { client, seen, life } = setting(() => problem(413, "too_large"));
  await assert.rejects(client.post("ses_1", "Hi", "key_1", life.signal), { status: 413, code: "too_large", message: "Detail of too_large." });
  assert.equal(seen.length, 1);
});

test("a wait that the server asks for is kept", async () => {
  let tries = 0;
  const { client, waits, life } = setting(() => (++tries === 1 ? problem(429, "rate_limited", { "Retry-After": "7" }) : json(200, {})));
  await client.cancel("run_1", life.signal);
  assert.deepEqual(waits, [7000]);
});

test("a post that has to wait long is not sent again, and says why", async () => {
  const { client, seen, waits, life } = setting(() => problem(429, "rate_limited", { "Retry-After": "3600" }));
  await assert.rejects(client.post("ses_1", "Hi", "key_1", life.signal), { status: 429, message: "Detail of rate_limited." });
  assert.deepEqual([seen.length, waits], [1, []]);
});

test("a refused token is renewed once, and only once", async () => {
  let issued = 0;
  const issue = async (): Promise<string> => `token_${(issued += 1)}`;
  const good = setting(({ headers }) => (headers.get("Authorization") === "Bearer token_2" ? json(201, { id: "ses_1" }) : problem(401, "unauthorized")), issue);
  assert.equal(await good.client.open(null, good.life.signal), "ses_1");
  const bad = setting(() => problem(401, "unauthorized"), issue);
  await assert.rejects(bad.client.open(null, bad.life.signal), { status: 401 });
  assert.equal(bad.seen.length, 2);
});

test("an error without a problem body is still a readable problem", async () => {
  const { client, life } = setting(() => new Response("<html>", { status: 418 }));
  await assert.rejects(client.open(null, life.signal), { status: 418, code: "unknown" });
});

test("a stream that ends is followed on from the last fact", async () => {
  const frames: Frame[] = [];
  const { client, seen, life } = setting((_, signal) => {
    if (seen.length === 1) return stream(sse(1, "session.opened", null, {}) + sse(null, "heartbeat", "run_1", {}) + "id: 2\nevent: cut", null);
    if (seen.length === 2) throw new TypeError("network");
    queueMicrotask(() => setTimeout(() => life.abort(), 5));
    return stream(sse(2, "run.queued", "run_1", {}), signal);
  });
  await client.follow("ses_1", follower(frames), life.signal);
  assert.deepEqual(seen.map(({ headers }) => headers.get("Last-Event-ID")), [null, "1", "1"]);
  assert.deepEqual(frames.map(({ seq, type }) => [seq, type]), [[1, "session.opened"], [undefined, "heartbeat"], [2, "run.queued"]]);
});

test("a cursor that the log does not know makes the reader start again", async () => {
  const frames: Frame[] = [];
  const { client, seen, life } = setting((_, signal) => {
    if (seen.length === 1) return stream(sse(9, "session.opened", null, {}), null);
    if (seen.length === 2) return problem(400, "unknown_cursor");
    setTimeout(() => life.abort(), 5);
    return stream(sse(1, "session.opened", null, {}), signal);
  });
  await client.follow("ses_1", follower(frames), life.signal);
  assert.deepEqual(seen.map(({ headers }) => headers.get("Last-Event-ID")), [null, "9", null]);
  assert.deepEqual(frames.map(({ seq }) => seq), [1]);
});

test("a follower that can do without older facts is given the newest, and a page before them", async () => {
  const begun: number[] = [];
  const { client, seen, life } = setting(({ path }, signal) => {
    if (path.includes("before")) return stream(sse(4, "run.queued", "run_1", {}), null);
    if (seen.length > 1) setTimeout(() => life.abort(), 5);
    const answer = stream(sse(5 + seen.length, "run.queued", "run_1", {}), seen.length > 1 ? signal : null);
    answer.headers.set("Parley-After", "5");
    return answer;
  });
  await client.follow("ses_1", follower([], { begins: (after) => void begun.push(after) }), life.signal);
  assert.deepEqual([seen.map(({ path }) => path.replace(/.*events/, "")), begun], [["?last=30", ""], [5]]);
  const { after, frames } = await client.page("ses_1", 6, 20, new AbortController().signal);
  assert.deepEqual([seen.at(-1)?.path.replace(/.*events/, ""), after, frames.map(({ seq }) => seq)], ["?last=20&before=6", 0, [4]]);
});

test("of a server that gives no part of a log the whole is read", async () => {
  const { client, seen, life } = setting(({ path }, signal) => {
    if (path.includes("last")) return problem(422, "invalid_request");
    setTimeout(() => life.abort(), 5);
    return stream(sse(1, "session.opened", null, {}), signal);
  });
  const frames: Frame[] = [];
  await client.follow("ses_1", follower(frames, { begins: () => assert.fail("it begins with the first") }), life.signal);
  assert.deepEqual([seen.length, frames.length], [2, 1]);
});

test("a session that is gone ends the following with its problem", async () => {
  const { client, life } = setting(() => problem(404, "not_found"));
  await assert.rejects(client.follow("ses_1", follower([]), life.signal), { status: 404 });
});

test("a stream that ends by itself is joined again without alarm", async () => {
  const states: string[] = [];
  const { client, seen, life } = setting((_, signal) => {
    if (seen.length === 1) return stream(sse(1, "session.opened", null, {}), null);
    setTimeout(() => life.abort(), 5);
    return stream(": hello\n\n", signal);
  });
  await client.follow("ses_1", follower([], { link: (state) => void states.push(state) }), life.signal);
  assert.deepEqual(states, ["connecting", "open", "open"]);
});

test("a silent connection is given up after 45 s", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const states: string[] = [];
  const { client, seen, life } = setting((_, signal) => stream(": hello\n\n", signal));
  const link = (state: string): void => {
    states.push(state);
    if (state === "open" && seen.length === 1) setImmediate(() => context.mock.timers.tick(45_000));
    if (state === "open" && seen.length === 2) life.abort();
  };
  await client.follow("ses_1", follower([], { link }), life.signal);
  assert.deepEqual(states, ["connecting", "open", "reconnecting", "open"]);
});

test("waits double to 20 s, and half of each is chance", () => {
  assert.deepEqual([1, 2, 3, 9].map((failures) => delay(failures, null, () => 1)), [500, 1000, 2000, 20_000]);
  assert.deepEqual([1, 9].map((failures) => delay(failures, null, () => 0)), [250, 10_000]);
});

test("an event's envelope and data are distinguished", () => {
  const data = JSON.stringify({ call: "c", run: "run_1", parent_run: null, session: "s", time: "t" });
  assert.deepEqual(toFrame({ id: "4", type: "tool.started", data }), { seq: 4, type: "tool.started", session: "s", run: "run_1", parent_run: null, time: "t", data: { call: "c" } });
});

test("a token is asked for once, kept until 30 s before its end, and then renewed", async () => {
  let now = 0;
  const { fetch, seen } = standIn(() => json(200, { token: `token_${seen.length}`, expires_at: new Date(now + 900_000).toISOString() }));
  const tokens = tokenSource({ token: "fixed", url: "/token", getToken: null, fetch, signal: new AbortController().signal, now: () => now });
  assert.deepEqual(await Promise.all([tokens.get(), tokens.get()]), ["token_1", "token_1"]);
  now = 869_000;
  assert.equal(await tokens.get(), "token_1");
  now = 870_000;
  assert.equal(await tokens.get(), "token_2");
});

test("what is refused is the token that was used, and not a newer one that came meanwhile", async () => {
  let n = 0;
  const options = { token: null, url: null, getToken: async () => `token_${(n += 1)}`, fetch, signal: new AbortController().signal, now: () => 0 };
  const tokens = tokenSource(options);
  const old = await tokens.get();
  tokens.drop(old);
  assert.equal(await tokens.get(), "token_2");
  tokens.drop(old);
  assert.equal(await tokens.get(), "token_2", "a second request with the old one was refused later");
  const used: (string | null)[] = [];
  const server = standIn(({ headers }) => (used.push(headers.get("Authorization")), used.length === 1 ? problem(401, "unauthorized") : json(201, { id: "ses_1" })));
  const dropped: (string | null)[] = [];
  const held = { get: async () => `held_${used.length}`, drop: (token: string | null) => void dropped.push(token) };
  const client = createClient({ server: "", tokens: held, fetch: server.fetch, pause: async () => undefined, random: () => 0 });
  await client.open(null, new AbortController().signal);
  assert.deepEqual([used, dropped], [["Bearer held_0", "Bearer held_1"], ["held_0"]]);
});

test("an agent that cannot be read for a moment is asked for again, and one that may not be is not", async () => {
  const { client, seen, waits, life } = setting(() => (seen.length === 1 ? problem(503, "unavailable") : json(200, { title: "Shop" })));
  assert.equal((await client.agent(life.signal)).title, "Shop");
  assert.deepEqual([seen.length, waits], [2, [500]]);
  const refused = setting(() => problem(403, "forbidden"));
  await assert.rejects(refused.client.agent(refused.life.signal), { status: 403 });
  assert.deepEqual(refused.waits, []);
});
