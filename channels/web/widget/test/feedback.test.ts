import assert from "node:assert/strict";
import { test } from "node:test";
import { createClient, type Client } from "../src/wire/client.js";
import { converse, type Actions, type Conversation } from "../src/talk/conversation.js";
import type { Given } from "../src/talk/feedback.js";
import { tokenSource } from "../src/wire/token.js";
import { heldMemory } from "./memory.js";
import { json, problem, standIn, type Answer, type StandIn } from "./server.js";

interface Setting extends StandIn {
  readonly actions: Actions;
  /** Each value of what was said of the run, in order. */
  readonly given: (Given | undefined)[];
}

function setting(answer: Answer): Setting {
  const server = standIn(answer);
  const { signal } = new AbortController();
  const tokens = tokenSource({ token: "token_1", url: null, getToken: null, fetch: server.fetch, signal, now: () => 0 });
  const client: Client = createClient({ server: "", tokens, fetch: server.fetch, pause: async () => undefined, random: () => 1 });
  const given: (Given | undefined)[] = [];
  const changed = ({ feedback }: Conversation): void => void given.push(feedback?.["run_1"]);
  return { ...server, given, actions: converse({ client, agent: null, memory: heldMemory(), more: () => import("../src/list/talks.js"), signal, newKey: () => "k", called: () => undefined, changed }) };
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
