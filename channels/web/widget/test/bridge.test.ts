import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { createBridge } from "../src/iframe/bridge.js";
import { framedCalls } from "../src/iframe/calls.js";

const SHOP = "https://shop.example";
const LISTED = [SHOP, "https://other.example"];
const GIVEN = { token: "t1", expires_at: "2026-01-01T00:00:00.000Z" };

/** A window in another one, which is at *around*, as far as the browser says so. */
function framed(listed: readonly string[], { ancestors = [] as string[], referrer = "" } = {}) {
  const posted: [unknown, string][] = [];
  const parent = { postMessage: (message: unknown, origin: string) => posted.push([message, origin]) };
  const page = Object.assign(new EventTarget(), { parent, location: { ancestorOrigins: ancestors }, document: { referrer } }) as unknown as Window;
  const [tokens, wishes, said] = [[] as unknown[], [] as string[], [] as unknown[]];
  const note = (...given: readonly unknown[]): void => void said.push(given);
  const noted = { context: (given: unknown) => note("context", given), tools: (names: unknown) => note("tools", names), output: (call: string, given: unknown) => note(call, given) };
  const bridge = createBridge({ page, listed, token: ({ token }) => tokens.push(token), wish: (wish) => wishes.push(wish), ...noted });
  const hear = (data: unknown, { source = parent as unknown, origin = SHOP } = {}) =>
    void page.dispatchEvent(Object.assign(new Event("message"), { source, origin, data }));
  return { bridge, posted, tokens, wishes, said, hear, page };
}
const question = [{ type: "parley:token" }, SHOP];

test("the parent is known by the browser's word for it, and messages are for its origin alone", () => {
  for (const [around, parent, sent] of [
    [{ ancestors: [LISTED[1] as string, SHOP] }, LISTED[1], [LISTED[1]]],
    [{ referrer: `${SHOP}/page?x` }, SHOP, [SHOP]],
    [{ ancestors: ["https://evil.example"], referrer: `${SHOP}/` }, "", LISTED],
    [{}, "", LISTED],
  ] as const) {
    const { bridge, posted } = framed(LISTED, { ancestors: [], referrer: "", ...around } as never);
    bridge.post({ type: "parley:ready" });
    assert.deepEqual([bridge.parent, posted.map(([, origin]) => origin)], [parent, sent]);
  }
  assert.equal(framed([SHOP]).bridge.parent, SHOP);
});

test("a token is asked for, once for all who want it, and comes from the parent at a listed origin alone", async () => {
  const { bridge, posted, hear, page, tokens } = framed(LISTED, { ancestors: [SHOP] });
  const asked = [bridge.getToken(), bridge.getToken()];
  assert.deepEqual(posted, [question]);
  hear({ type: "parley:token", token: "stolen" }, { source: {} });
  hear({ type: "parley:token", token: "stolen" }, { source: page });
  for (const origin of ["https://other.example", "https://evil.example", "null"]) hear({ type: "parley:token", token: "stolen" }, { origin });
  for (const odd of [null, 7, "parley:token", { type: "token", token: "stolen" }, { token: "stolen" }]) hear(odd);
  hear({ type: "parley:token", ...GIVEN });
  assert.deepEqual((await Promise.all(asked)).map(({ token, expires_at }) => ({ token, expires_at })), [GIVEN, GIVEN]);
  assert.deepEqual(tokens, []);
  void bridge.getToken();
  assert.equal(posted.length, 2); // another question for the next one
  hear({ type: "parley:token", token: "t2" });
});

test("a token that was not asked for is the next one's; one that is none is left alone", () => {
  const { hear, tokens, wishes } = framed([SHOP]);
  hear({ type: "parley:token", token: "t3" });
  for (const token of ["", 7, null, undefined]) hear({ type: "parley:token", token });
  hear({ type: "parley:token", token: "t4", expires_at: 7 });
  assert.deepEqual(tokens, ["t3"]);
  for (const name of ["open", "close", "focus", "newConversation", "send", "setToken", "remove", "constructor"]) hear({ type: `parley:${name}` });
  assert.deepEqual(wishes, ["open", "close", "focus", "newConversation"]);
});

test("no token, and no answer at all, are failures that the conversation can tell apart", async ({ mock }: TestContext) => {
  mock.timers.enable({ apis: ["setTimeout"] });
  const { bridge, hear, posted } = framed([SHOP]);
  const refused = bridge.getToken();
  hear({ type: "parley:token", error: "sign in" });
  await assert.rejects(refused, { status: 403 });
  const silent = bridge.getToken();
  mock.timers.tick(15_000);
  await assert.rejects(silent, { status: 503 });
  assert.deepEqual(posted, Array(6).fill(question)); // a page that listens later is asked again
});

test("context, names of tools and outputs are taken from the parent alone, and as what they are", () => {
  const { hear, said } = framed(LISTED, { ancestors: [SHOP] });
  const messages = [
    { type: "parley:setContext", context: { page: "/lamps" } },
    { type: "parley:setContext", context: null },
    { type: "parley:tools", names: ["cart_total"] },
    { type: "parley:tool-output", call: "call_1", output: 7 },
    { type: "parley:tool-output", call: "call_1" },
    { type: "parley:tool-output", call: "call_1", error: "no cart", output: 7 },
  ];
  for (const message of messages) hear(message, { origin: "https://other.example" });
  for (const message of messages) hear(message, { source: {} });
  for (const odd of [{ context: 7 }, { context: [1] }, {}]) hear({ type: "parley:setContext", ...odd });
  for (const names of ["cart_total", [7], undefined]) hear({ type: "parley:tools", names });
  hear({ type: "parley:tool-output", call: 7 });
  assert.deepEqual(said, []);
  for (const message of messages) hear(message);
  const [output, nothing, error] = [{ output: 7 }, { output: null }, { error: "no cart" }];
  assert.deepEqual(said, [["context", { page: "/lamps" }], ["context", null], ["tools", ["cart_total"]], ["call_1", output], ["call_1", nothing], ["call_1", error]]);
});

test("of calls the parent gets those of the tools that it named, also one that waited, and only these are answered", async () => {
  const [chat, posted, handed] = [new EventTarget(), [] as Readonly<Record<string, unknown>>[], [] as unknown[]];
  const calls = framedCalls(chat, (message) => posted.push(message));
  const note = (call: string, what: unknown) => Promise.resolve(handed.push([call, what]) > 0);
  const ask = (call: string, name: string): boolean => {
    const detail = { call, run: "run_1", name, arguments: { a: 1 }, argumentsText: '{"a":1}', respond: (output: unknown) => note(call, output), fail: (text: string) => note(call, `! ${text}`) };
    return !chat.dispatchEvent(Object.assign(new Event("parley:tool-call", { cancelable: true }), { detail }));
  };
  assert.deepEqual([ask("one", "cart"), ask("two", "secret")], [false, false]);
  assert.deepEqual(posted, []);
  calls.take(["cart"]);
  assert.deepEqual([ask("three", "cart"), ask("four", "secret")], [true, false]);
  assert.deepEqual(posted.map(({ call, name, argumentsText }) => [call, name, argumentsText]), [["one", "cart", '{"a":1}'], ["three", "cart", '{"a":1}']]);
  calls.hand("one", { output: 5 });
  calls.hand("two", { output: 6 });
  calls.hand("three", { error: "empty" });
  await new Promise((resolve) => setTimeout(resolve));
  assert.deepEqual(handed, [["one", 5], ["three", "! empty"]]);
  assert.deepEqual(posted.slice(2), [{ type: "parley:tool-output", call: "one", counted: true }, { type: "parley:tool-output", call: "three", counted: true }]);
});

test("an output that cannot be sent fails the call, and the parent learns what counted", async () => {
  const [chat, posted, failed] = [new EventTarget(), [] as Readonly<Record<string, unknown>>[], [] as string[]];
  const calls = framedCalls(chat, (message) => posted.push(message));
  calls.take(["cart"]);
  const ask = (call: string, fail: (text: string) => Promise<boolean>): void => {
    const respond = async (output: unknown): Promise<boolean> => JSON.stringify(output) !== "";
    const detail = { call, run: "run_1", name: "cart", arguments: {}, argumentsText: "{}", respond, fail };
    chat.dispatchEvent(Object.assign(new Event("parley:tool-call", { cancelable: true }), { detail }));
  };
  ask("one", async (text) => failed.push(text) > 0);
  ask("two", () => Promise.reject(new Error("away")));
  for (const call of ["one", "two"]) calls.hand(call, { output: 7n });
  await new Promise((resolve) => setTimeout(resolve));
  assert.match(failed.join(), /BigInt/);
  assert.deepEqual(posted.filter(({ type }) => type === "parley:tool-output").map(({ call, counted }) => [call, counted]), [["one", true], ["two", false]]);
});
