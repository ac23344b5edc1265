import assert from "node:assert/strict";
import { test } from "node:test";
import { JSDOM } from "jsdom";
import type { Call } from "../src/log/state.js";
import { showInside } from "../src/tools/inside.js";
import { lineOf, sentence } from "../src/tools/sentence.js";
import { whole } from "../src/tools/words.js";
import { folded, type Block } from "../src/transcript/blocks.js";
import { tool } from "../src/tools/main.js";
import type { Scene } from "../src/transcript/scene.js";
import { STRINGS } from "../src/words/strings.js";

const { window } = new JSDOM("<!doctype html><body>");
Object.assign(globalThis, { document: window.document, AbortController: window.AbortController, AbortSignal: window.AbortSignal, Node: window.Node, ShadowRoot: window.ShadowRoot });
const WORDS = whole(STRINGS);

const call = (id: string, more: Partial<Call> = {}): Call => ({ id, run: "run_1", message: "msg_1", name: "find_order", status: "done", ...more });
const text = (said: string): Pick<Call, "result"> => ({ result: [{ type: "text", text: said }] });

test("a call is said as what it does, then as what it did, and by its name in words where it has no title", () => {
  const titles = { title: "Looking up your order", titleDone: "Looked up your order" };
  assert.deepEqual(
    [call("1", titles), call("1", { ...titles, status: "running" }), call("1", { ...titles, status: "failed" }), call("1", { title: "Orders" }), call("1"), call("1", { name: "mcp__shop__get-order" }), call("1", { name: "_" })].map(sentence),
    ["Looked up your order", "Looking up your order", "Looking up your order", "Orders", "Find order", "Get order", "_"],
  );
});

test("several calls are one line: the newest that runs, then how many there were and what went wrong", () => {
  const said = (...calls: Call[]): string => {
    const { said: line, more, state } = lineOf(calls, WORDS);
    const beside = more.map((each) => (typeof each === "string" ? each : each.textContent)).filter(Boolean).join(" ");
    return `${state}: ${line}${beside ? ` | ${beside}` : ""}`;
  };
  assert.equal(said(call("1"), call("2", { name: "pay", status: "running", progress: "half" })), "running: Pay | half");
  assert.equal(said(call("1"), call("2", { status: "requested" })), "requested: Find order | waiting");
  assert.equal(said(call("1"), call("2"), call("3")), "done: Used 3 tools");
  assert.equal(said(call("1"), call("2", { status: "failed" }), call("3", { status: "failed" })), "failed: Used 3 tools | 2 failed");
  assert.equal(said(call("1", { status: "unknown" })), "unknown: Find order | outcome unknown");
  assert.equal(said(call("1", { seconds: 3 })), "done: Find order | done 3 s");
});

test("calls that follow each other are folded, but for one that people are asked about", () => {
  const block = (one: Call): Block => ({ kind: "tool", key: one.id, call: one });
  const asked = { ...call("3"), approval: { id: "apr_1" } } as Call;
  const words: Block = { kind: "text", key: "t", text: "So.", open: false };
  const made = folded([block(call("1")), block(call("2")), block(asked), block(call("4")), words, block(call("5")), block(call("6")), block(call("7"))]);
  assert.deepEqual(made.map((each) => (each.kind === "tools" ? each.calls.map(({ id }) => id) : each.key)), [["1", "2"], "3", "4", "t", ["5", "6", "7"]]);
  assert.deepEqual(made.map(({ key }) => key), ["1", "3", "4", "t", "5"]);
});

function inside(...calls: Call[]): HTMLElement {
  const host = window.document.createElement("div");
  showInside(host, calls, WORDS);
  return host;
}
const lines = (host: Element, what: string): (string | null)[] => [...host.querySelectorAll(what)].map((each) => each.textContent);

test("results are read: lists of names and values, small tables, text as text, and every digit", () => {
  const host = inside(call("1", { arguments: { order_id: 7 }, ...text('{"total":12345678901234567890,"paid":true,"note":null,"items":[{"sku":"a","n":1},{"sku":"b"}],"tags":["x","y"]}') }));
  assert.deepEqual(lines(host, ".box > span"), ["Input", "Result"]);
  assert.deepEqual(lines(host, "dt"), ["Order id", "Total", "Paid", "Note", "Items", "Tags"]);
  assert.deepEqual(lines(host, "dd").slice(0, 4), ["7", "12345678901234567890", "yes", "none"]);
  assert.deepEqual([lines(host, "th"), lines(host, "td"), lines(host, "li")], [["Sku", "N"], ["a", "1", "b", ""], ["x", "y"]]);
  assert.equal(inside(call("1", text("<b>{not json"))).querySelector(".value")?.textContent, "<b>{not json");
  assert.equal(inside(call("1", { ...text("{cut"), truncated: true })).querySelector(".value")?.textContent, "{cutThe result was shortened.");
});

test("long ones are cut, and shown whole when asked for", () => {
  const rows = Array.from({ length: 20 }, (_, n) => ({ n }));
  const host = inside(call("1", text(JSON.stringify(rows))));
  assert.equal(host.querySelectorAll("tbody tr").length, 8);
  const more = host.querySelector("button") as HTMLElement;
  assert.equal(more.textContent, "Show all 20 rows");
  more.click();
  assert.deepEqual([host.querySelectorAll("tbody tr").length, host.querySelector("button")], [20, null]);
  const long = inside(call("1", text("a\n".repeat(5_000))));
  assert.ok((long.querySelector(".plain")?.textContent?.length ?? 0) < 100);
  (long.querySelector("button") as HTMLElement).click();
  assert.equal(long.querySelector(".plain")?.textContent?.length, 10_000);
  assert.equal(inside(call("1", text(JSON.stringify(Array.from({ length: 50 }, String))))).querySelectorAll("li").length, 12);
});

test("hostile names and values are text, and what is nested without end is JSON", () => {
  const bad = "<img src=x onerror=alert(1)>";
  const deep = JSON.parse(`${'{"a":['.repeat(50)}1${"]}".repeat(50)}`) as Record<string, unknown>;
  const host = inside(call("1", { title: bad, arguments: { [bad]: bad, __proto__: 1, constructor: [bad], deep }, ...text(JSON.stringify([{ [bad]: bad }, { [bad]: 1 }])) }), call("2", { name: bad }));
  assert.equal(host.querySelector("img"), null);
  assert.ok(host.textContent?.includes(bad));
  assert.doesNotMatch(host.textContent ?? "", /native code|\[object/);
});

test("a line opens where there is more to see; with names alone there is nothing to open", () => {
  const node = window.document.createElement("div");
  window.document.body.replaceChildren(node);
  const shown = tool(node, { strings: STRINGS } as Scene);
  const bare = call("1");
  shown.update({ kind: "tool", key: "1", call: bare });
  assert.deepEqual([node.querySelector("details"), node.dataset["status"], node.querySelector("b")?.textContent], [null, "done", "Find order"]);
  shown.update({ kind: "tools", key: "1", calls: [bare, call("2", text("Found."))] });
  const details = node.querySelector("details") as HTMLDetailsElement;
  assert.equal(details.querySelector("summary b")?.textContent, "Used 2 tools");
  details.open = true;
  details.dispatchEvent(new window.Event("toggle"));
  assert.deepEqual([lines(node, ".step > :first-child").length, node.querySelectorAll(".step details, details.step").length], [2, 1]);
  const step = node.querySelector("details.step") as HTMLDetailsElement;
  step.open = true;
  shown.update({ kind: "tools", key: "1", calls: [{ ...bare, status: "failed" }, call("2", text("Found it."))] });
  assert.deepEqual([node.dataset["status"], (node.querySelector("details.step") as HTMLDetailsElement).open], ["failed", true]);
});
