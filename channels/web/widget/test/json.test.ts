import assert from "node:assert/strict";
import { test } from "node:test";
import { JSDOM } from "jsdom";
import { cardNode } from "../src/cards/card.js";
import { whole } from "../src/cards/words.js";
import type { Vote } from "../src/talk/deciding.js";
import { createClient, toFrame } from "../src/wire/client.js";
import { doubtIn, parseExact, parseFrame } from "../src/wire/json.js";
import { reduce } from "../src/log/reduce.js";
import { EMPTY, type Approval } from "../src/log/state.js";
import { STRINGS } from "../src/words/strings.js";

const { window } = new JSDOM("<!doctype html><body>");
Object.assign(globalThis, { document: window.document, AbortController: window.AbortController, AbortSignal: window.AbortSignal, Node: window.Node });

const NUMBERS = ["12345678901234567890", "9007199254740993", "1.0", "-0", "1e400", "1E5", "0.1000000000000000055", "5", "0.5"];
const GIVEN = `{"account":12345678901234567890,"rate":1.0,"note":"a\\r\\nb","to":{"arguments":[1e400,2]},"count":2}`;

test("every number is written back as it came, wherever it is", () => {
  for (const number of NUMBERS) {
    assert.equal(JSON.stringify(parseExact(number)), number);
    assert.equal(JSON.stringify(parseExact(`{"a":[${number}]}`)), `{"a":[${number}]}`);
  }
  assert.deepEqual([parseExact("5"), doubtIn(parseExact("[9007199254740993]"))], [5, null]);
  assert.throws(() => parseExact("01"), SyntaxError);
});

test("in the payload of a render a whole number that JavaScript would round is text", () => {
  const frame = parseFrame('{"payload":{"rows":[{"id":9007199254740993,"n":9007199254740991,"x":1e30,"f":0.12345678901234567}]},"text":"-"}');
  assert.deepEqual(frame["payload"], { rows: [{ id: "9007199254740993", n: 9007199254740991, x: 1e30, f: 0.12345678901234567 }] });
});

test("in a frame the arguments are exact, and all other numbers are numbers", () => {
  const frame = parseFrame(`{"timeout_s":300.0,"parts":[{"arguments":${GIVEN}}],"arguments":{"arguments":1.0,"__proto__":2.0},"quorum":1.0}`);
  assert.deepEqual([frame["timeout_s"], frame["quorum"]], [300, 1]);
  assert.equal(JSON.stringify(frame["parts"]), `[{"arguments":${GIVEN}}]`);
  assert.equal(JSON.stringify(frame["arguments"]), `{"arguments":1.0,"__proto__":2.0}`);
  assert.deepEqual(parseFrame('{"text":"no \\"arguments\\" here","offset":7}'), { text: 'no "arguments" here', offset: 7 });
});

/** Return the question in the stream. */
function asked(): Approval {
  const envelope = `"run":"run_1","parent_run":null,"time":"2026-01-05T09:00:00.000Z","session":"ses_1"`;
  const shared = `"approval":"apr_1","call":"call_1","arguments":${GIVEN}`;
  const data = `{${shared},"tool":"pay","title":"Pay?","responders":["asker"],"quorum":1,"timeout_s":300.0,"edit":true,${envelope}}`;
  const { calls } = reduce(EMPTY, toFrame({ id: "3", type: "approval.requested", data }));
  return calls[0]?.approval as Approval;
}

test("a card shows each digit, and a correction sends back unchanged what was not edited", async () => {
  const approval = asked();
  const votes: Vote[] = [];
  const card = cardNode(approval, (_id, vote) => votes.push(vote), whole(STRINGS));
  const call = { id: "call_1", run: "run_1", message: null, name: "pay", status: "waiting", approval } as const;
  card.update(call, undefined);
  window.document.body.replaceChildren(card.node);
  assert.equal(approval.until, Date.parse("2026-01-05T09:05:00.000Z"));
  const shown = [...card.node.querySelectorAll("dd")].map((each) => each.textContent);
  assert.deepEqual(shown, ["12345678901234567890", "1.0", "a\\u{d}\nb", '{\n  "arguments": [\n    1e400,\n    2\n  ]\n}', "2"]);
  assert.equal(card.node.querySelector(".note"), null);
  const press = (label: string): void => [...card.node.querySelectorAll("button")].find((each) => each.textContent === label)?.click();
  press("Edit");
  const fields = [...card.node.querySelectorAll("textarea")];
  assert.deepEqual([fields[0]?.value, fields[1]?.value], ["12345678901234567890", "1.0"]);
  (fields[4] as HTMLTextAreaElement).value = "98765432109876543210";
  press("Approve with these changes");
  const bodies: unknown[] = [];
  const ask = async (_path: unknown, { body }: RequestInit): Promise<Response> => (bodies.push(body), new Response("{}"));
  const client = createClient({ server: "", tokens: { get: async () => null, drop: () => undefined }, fetch: ask as typeof fetch, pause: async () => undefined, random: () => 0 });
  await client.decide("apr_1", votes[0] as Vote, new AbortController().signal);
  assert.deepEqual(bodies, [`{"approved":true,"arguments":${GIVEN.replace(/2\}$/, "98765432109876543210}")}}`]);
});
