import assert from "node:assert/strict";
import { mock, test } from "node:test";
import type { Frame } from "../src/log/events.js";
import { createClient, type Follower } from "../src/wire/client.js";
import { onWake, pause } from "../src/wire/pause.js";
import { tokenSource } from "../src/wire/token.js";
import { problem, sse, standIn } from "./server.js";

/** Let *run* have a page whose events are raised by the function that it is given; every kind of signal ends its listeners. */
async function onPage(run: (raise: (name: string) => void) => Promise<void>): Promise<void> {
  const listeners = new Set<readonly [string, () => void]>();
  const addEventListener = (name: string, listen: () => void, { signal }: { signal: AbortSignal }): void => {
    const listener = [name, listen] as const;
    listeners.add(listener);
    signal.addEventListener("abort", () => listeners.delete(listener));
  };
  const before = (["addEventListener", "document"] as const).map((name) => [name, Object.getOwnPropertyDescriptor(globalThis, name)] as const);
  Object.defineProperty(globalThis, "addEventListener", { value: addEventListener, configurable: true, writable: true });
  Object.defineProperty(globalThis, "document", { value: { addEventListener }, configurable: true, writable: true });
  try {
    await run((name) => [...listeners].forEach(([of, listen]) => of === name && listen()));
  } finally {
    mock.timers.reset();
    for (const [name, property] of before) property ? Object.defineProperty(globalThis, name, property) : Reflect.deleteProperty(globalThis, name);
  }
}
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test("a wait ends when the network or the person returns, and after a sleep", async () => {
  await onPage(async (raise) => {
    for (const name of ["online", "pageshow", "visibilitychange", "resume"]) {
      const waiting = pause(60_000, new AbortController().signal);
      raise(name);
      await waiting;
    }
    const life = new AbortController();
    let woken = 0;
    onWake(() => (woken += 1), life.signal);
    life.abort();
    raise("online");
    assert.equal(woken, 0, "it listens no longer");
  });
});

test("after a sleep a silent connection is given up at once and another goes on from the cursor, without a word to the person", async () => {
  await onPage(async (raise) => {
    mock.timers.enable({ apis: ["Date"], now: 1_000_000 });
    const life = new AbortController();
    const cursors: (string | null)[] = [];
    const server = standIn(({ headers }, signal) => {
      cursors.push(headers.get("Last-Event-ID"));
      const body = new ReadableStream({
        start(controller) {
          if (cursors.length === 1) controller.enqueue(new TextEncoder().encode(sse(7, "session.opened", null, {})));
          signal?.addEventListener("abort", () => controller.error(signal.reason));
        },
      });
      return new Response(body);
    });
    const frames: Frame[] = [];
    const links: string[] = [];
    const follower: Follower = { cursor: () => frames.at(-1)?.seq ?? 0, frame: (frame) => frames.push(frame), link: (link) => links.push(link), reset: () => undefined };
    const client = createClient({ server: "", tokens: { get: async () => null, drop: () => undefined }, fetch: server.fetch, pause: () => Promise.reject(new Error("it waited")), random: () => 0 });
    const done = client.follow("ses_1", follower, life.signal);
    while (!frames.length) await settled();
    raise("visibilitychange");
    await settled();
    assert.equal(cursors.length, 1, "a connection that was used lately stays");
    mock.timers.tick(20_001);
    raise("visibilitychange");
    for (let tries = 0; cursors.length < 2 && tries < 50; tries += 1) await settled();
    assert.deepEqual([cursors, links], [[null, "7"], ["connecting", "open", "open"]]);
    life.abort();
    await done;
  });
});

test("a token that ends in mid-stream is replaced, and the stream goes on from the cursor, without a word to the person", () => onPage(async () => {
  const life = new AbortController();
  const frames: Frame[] = [];
  const links: string[] = [];
  let now = 0;
  let issued = 0;
  let waits = 0;
  const server = standIn(({ headers }) => {
    const token = headers.get("Authorization");
    if (token !== `Bearer token_${issued}`) return problem(401, "unauthorized");
    const from = Number(headers.get("Last-Event-ID") ?? 0);
    now += 60_000; // the server ends the stream with its token
    if (from === 2) issued += 1; // and of the next one the page does not know that it has ended
    if (from === 3) life.abort();
    return new Response(sse(from + 1, "session.opened", null, {}));
  });
  const getToken = async () => ({ token: `token_${(issued += 1)}`, expires_at: new Date(now + 80_000).toISOString() });
  const tokens = tokenSource({ token: null, url: null, getToken, fetch: server.fetch, signal: life.signal, now: () => now });
  const client = createClient({ server: "", tokens, fetch: server.fetch, pause: async () => void ((waits += 1) > 9 && life.abort()), random: () => 0 });
  const follower: Follower = { cursor: () => frames.at(-1)?.seq ?? 0, frame: (frame) => frames.push(frame), link: (link) => links.push(link), reset: () => undefined };
  await client.follow("ses_1", follower, life.signal);
  assert.deepEqual([frames.map(({ seq }) => seq), [...new Set(links)]], [[1, 2, 3, 4], ["connecting", "open"]]);
  assert.ok(issued >= 3);
}));
