import assert from "node:assert/strict";
import { test } from "node:test";
import { JSDOM } from "jsdom";
import type { Approval } from "../src/log/state.js";

const { window } = new JSDOM("<!doctype html><body>");
Object.assign(globalThis, { document: window.document, AbortController: window.AbortController, AbortSignal: window.AbortSignal, Node: window.Node });
delete (JSON as { rawJSON?: unknown }).rawJSON; // as in browsers before 2025
const { cardNode } = await import("../src/cards/card.js");
const { doubtIn, parseExact, parseFrame } = await import("../src/wire/json.js");
const { whole } = await import("../src/cards/words.js");
const { STRINGS } = await import("../src/words/strings.js");

function shown(text: string): HTMLElement {
  const given = parseFrame(`{"arguments":${text}}`)["arguments"] as Record<string, unknown>;
  const common = { responders: ["asker"], quorum: 1, yes: 0, until: 0, remember: false, status: "open", edited: false } as const;
  const approval: Approval = { id: "apr_1", tool: "pay", title: "Pay?", arguments: given, edit: true, ...common };
  const { node, update } = cardNode(approval, () => undefined, whole(STRINGS));
  update({ id: "call_1", run: "run_1", message: null, name: "pay", status: "waiting", approval }, undefined);
  return node;
}

const labels = (node: HTMLElement): (string | null)[] => [...node.querySelectorAll("button")].map((each) => each.textContent);

test("a browser that rounds says so on the card, and offers no correction of what it cannot send back", () => {
  const rounded = shown('{"to":{"account":9007199254740993}}');
  assert.match(rounded.textContent ?? "", /may show long numbers rounded/);
  assert.deepEqual(labels(rounded), ["Approve", "Deny"]);
  const short = shown('{"count":2}');
  assert.match(short.textContent ?? "", /may show long numbers rounded/);
  assert.deepEqual(labels(short), ["Approve", "Deny", "Edit"]);
  assert.equal(shown('{"what":"12345678901234567890"}').querySelector(".note"), null);
});

test("a browser that rounds takes no number that it could not send as it was written", () => {
  assert.deepEqual([doubtIn([1e400]), doubtIn({ a: [1] }), doubtIn("1")], ["lost", "rounded", null]);
  assert.equal(parseExact("9007199254740991"), 9007199254740991);
  assert.throws(() => parseExact("[12345678901234567890]"), RangeError);
});
