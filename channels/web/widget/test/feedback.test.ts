import assert from "node:assert/strict";
import { test } from "node:test";
import { createClient, type Client } from "../src/wire/client.js";
import { happened } from "../src/host/observe.js";
import { converse, FRESH, type Actions, type Conversation } from "../src/talk/conversation.js";
import type { Given } from "../src/talk/feedback.js";
import { tokenSource } from "../src/wire/token.js";
import { heldMemory } from "./memory.js";
import { json, problem, standIn, type Answer, type StandIn } from "./server.js";

interface Setting extends StandIn {
  readonly actions: Actions;
  /** Each value of what was said of the run, in order. */
  readonly given: (Given | undefined)[];
}

function setting(answer: Answer, remembered: string | null = null): Setting {
  const server = standIn(answer);
  const { signal } = new AbortController();
  const tokens = tokenSource({ token: "token_1", url: null, getToken: null, fetch: server.fetch, signal, now: () => 0 });
  const asking = createClient({ server: "", tokens, fetch: server.fetch, pause: async () => undefined, random: () => 1 });
  const client: Client = { ...asking, follow: () => new Promise<void>(() => undefined) };
  const given: (Given | undefined)[] = [];
  const changed = ({ feedback }: Conversation): void => void given.push(feedback?.["run_1"]);
  return { ...server, given, actions: converse({ client, agent: null, memory: heldMemory(remembered), more: () => import("../src/list/talks.js"), signal, newKey: () => "k", called: () => undefined, changed }) };
}

const settled = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 5));

test("a rating is shown at once, is posted with its reason, and a later one replaces it", async () => {
  const { actions, given, seen } = setting(() => json(201, {}));
  actions.feedback("run_1", "down");
  await settled();
  actions.feedback("run_1", "up", "Short");
  await settled();
  assert.deepEqual(seen.map(({ method, path, body }) => [method, path, body]), [
    ["POST", "/v1/runs/run_1/feedback", { rating: "down" }],
    ["POST", "/v1/runs/run_1/feedback", { rating: "up", comment: "Short" }],
  ]);
  assert.deepEqual(given.map((each) => each && [each.rating, each.comment, each.sending]), [
    ["down", undefined, true],
    ["down", undefined, false],
    ["up", "Short", true],
    ["up", "Short", false],
  ]);
});

test("what was said before the page came is shown again, and is no news; what is said meanwhile stays", async () => {
  const kept = { items: [{ run: "run_1", rating: "down", comment: "Wrong" }, { run: "run_2", rating: "up", comment: null }] };
  let answer: (body: Response) => void = () => undefined;
  const later = (take: (resolve: (body: Response) => void) => void): Promise<Response> => new Promise(take);
  const { actions, given, seen } = setting(({ path }) => {
    return path === "/v1/web/conversations/ses_1/feedback" ? later((resolve) => (answer = resolve)) : json(201, {});
  }, "ses_1");
  actions.start();
  await settled();
  actions.feedback("run_2", "down");
  answer(json(200, kept));
  await settled();
  assert.deepEqual(given.at(-1), { rating: "down", comment: "Wrong", sending: false, isOlder: true });
  assert.equal(seen.filter(({ path }) => path.endsWith("/feedback")).length, 2);
  const before = { ...FRESH, feedback: {} };
  assert.deepEqual(happened(before, { ...before, feedback: { run_1: given.at(-1) as Given } }, 0), []);
});

test("a rating that was refused leaves the one before, and says why", async () => {
  let answers = 0;
  const { actions, given } = setting(() => ((answers += 1) === 1 ? json(201, {}) : problem(422, "invalid_request")));
  actions.feedback("run_1", "up", "Good");
  await settled();
  actions.feedback("run_1", "down");
  await settled();
  const last = given.at(-1);
  assert.deepEqual([last?.rating, last?.comment, last?.sending, last?.problem?.code], ["up", "Good", false, "invalid_request"]);
});
