import assert from "node:assert/strict";
import { test } from "node:test";
import { JSDOM } from "jsdom";
import type { Conversation } from "../src/talk/conversation.js";
import { entriesOf, type Answer, type Question } from "../src/transcript/entries.js";
import { showEntry } from "../src/transcript/entry.js";
import type { Scene } from "../src/transcript/scene.js";
import { textIn } from "../src/markdown/text.js";
import { textNode, type TextBlock } from "../src/transcript/text.js";
import type { Message, Run, ViewState } from "../src/log/state.js";
import { EMPTY } from "../src/log/state.js";
import { STRINGS } from "../src/words/strings.js";

const { window } = new JSDOM("<!doctype html><body>");
Object.assign(globalThis, { document: window.document, AbortController: window.AbortController, AbortSignal: window.AbortSignal, Node: window.Node });

const loaded: string[] = [];
const dressed: Element[] = [];
const chunk = { dress: (code: Element) => void dressed.push(code), fileCard: (host: Element) => host.replaceChildren("card"), answerFoot: () => () => undefined, questionFoot: () => () => undefined, textIn };
const load = (name: string): Promise<unknown> => (loaded.push(name), Promise.resolve(chunk));
const scene = { strings: STRINGS, load, request: null, decide: null } as unknown as Scene;

/** A text whose markdown is drawn. */
function drawn(): { node: HTMLElement; update(block: TextBlock): void } {
  const node = document.createElement("div");
  return { node, update: textIn(node, scene) };
}

test("a text is shown as it came until what draws markdown is there, and stays so without that", async () => {
  const { node, update } = textNode({ ...scene, load: (() => Promise.resolve({ textIn })) as never });
  const failed = textNode({ ...scene, load: (() => Promise.reject(new Error("away"))) as never });
  for (const each of [update, failed.update]) each({ kind: "text", key: "k", text: "**Bold**\n<b>", open: true });
  assert.equal(node.innerHTML, "**Bold**\n&lt;b&gt;");
  await new Promise((resolve) => setTimeout(resolve));
  assert.equal(node.querySelector("strong")?.textContent, "Bold");
  assert.equal(node.classList.contains("raw"), false);
  failed.update({ kind: "text", key: "k", text: "**Bold** more", open: false });
  assert.equal(failed.node.textContent, "**Bold** more");
});

function tipAfter(text: string): string | undefined {
  const { node, update } = drawn();
  update({ kind: "text", key: "k", text, open: true });
  assert.equal(node.parentNode, null);
  const tips = [...node.querySelectorAll(".writing"), ...(node.classList.contains("writing") ? [node] : [])];
  assert.equal(tips.length, 1, text);
  return `${tips[0]?.localName} ${tips[0]?.textContent}`;
}

test("the mark of a text that is being written comes after its last word, whatever that is in", () => {
  for (const [text, tip] of [
    ["One\n\nTwo *three*", "p Two three"],
    ["- one\n- two", "li two"],
    ["1. one\n   - two\n   - three", "li three"],
    ["- one\n\n  ```py\n  x = 1", "code x = 1"],
    ["```\nlet a", "code let a"],
    ["> one\n> > two", "p two"],
    ["| a | b |\n|---|---|\n| 1 | 2 |\n| 3 ", "td 3"],
    ["| a | b |\n|---|---|", "th b"],
    ["## Title", "h4 Title"],
    ["Text\n\n---", "p Text"],
  ] as const) {
    assert.equal(tipAfter(text), tip);
  }
});

test("a whole text has no mark, and one that goes on has the one at its end alone", () => {
  const { node, update } = drawn();
  for (const text of ["- a", "- a\n- b", "- a\n- b\n\nc"]) update({ kind: "text", key: "k", text, open: true });
  assert.deepEqual([...node.querySelectorAll(".writing")].map((each) => each.textContent), ["c"]);
  update({ kind: "text", key: "k", text: "- a\n- b\n\nc", open: false });
  assert.equal(node.querySelector(".writing"), null);
});

test("code is dressed once it is whole, and once only", async () => {
  dressed.length = 0;
  const { node, update } = drawn();
  const grow = async (text: string, open = true): Promise<number> => {
    update({ kind: "text", key: "k", text, open });
    await Promise.resolve();
    return dressed.length;
  };
  assert.equal(await grow("```py\nx = 1"), 0);
  assert.equal(await grow("```py\nx = 1\n```\n\nSo"), 1);
  assert.equal(await grow("```py\nx = 1\n```\n\nSo it is.\n\n- a\n\n  ```js\n  y"), 1);
  assert.equal(await grow("```py\nx = 1\n```\n\nSo it is.\n\n- a\n\n  ```js\n  y\n  ```", false), 2);
  assert.deepEqual(dressed.map((each) => node.contains(each)), [true, true]);
});

const message = (id: string, role: Message["role"], more: Partial<Message> = {}): Message => ({
  id, role, run: "run_1", seq: 1, time: 5, parts: [{ type: "text", text: id }], open: false, pending: false, steered: false, missed: false, partial: false, stop: null, epoch: 0, attempt: 0, ...more,
});
const run = (id: string, status: Run["status"]): Run => ({ id, status, started: true, cancelling: false });

function shown(view: Partial<ViewState>, more: Partial<Conversation> = {}): readonly (Question | Answer)[] {
  return entriesOf({ view: { ...EMPTY, ...view }, outbox: [], decisions: {}, ...more } as unknown as Conversation);
}
const says = (entries: readonly (Question | Answer)[]): readonly unknown[] => entries.map((each) => (each.kind === "answer" ? [each.newest, each.asked] : each.editable));
const FILE = { type: "file", file: "file_1", name: "a.png", mime: "image/png", size: 5 } as const;

test("the newest answer may be given once more, and its question be changed, while nothing runs or waits", () => {
  const messages = [message("q1", "user"), message("a1", "assistant"), message("q2", "user", { run: "run_2" }), message("a2", "assistant", { run: "run_2" })];
  const whole = { messages, runs: [run("run_1", "completed"), run("run_2", "completed")] };
  assert.deepEqual(says(shown(whole)), [false, [false, null], true, [true, "q2"]]);
  assert.deepEqual(says(shown({ ...whole, runs: [run("run_1", "completed"), run("run_2", "running")] })), [false, [false, null], false, [true, null]]);
  const outbox = [{ key: "k", text: "new", files: [FILE], status: "sending" as const, since: 9 }];
  const entries = shown(whole, { outbox });
  assert.deepEqual(says(entries), [false, [false, null], false, [false, null], false]);
  assert.deepEqual((entries.at(-1) as Question).files, [FILE]);
  const byPerson = [...messages.slice(0, 3), message("a2", "assistant", { run: "run_2", by: { id: "meg" } })];
  assert.deepEqual(says(shown({ ...whole, messages: byPerson })).at(-1), [true, null]);
});

test("what was said of an answer is part of it", () => {
  const view = { messages: [message("q", "user"), message("a", "assistant")], runs: [run("run_1", "completed")] };
  const given = { rating: "up", sending: false } as const;
  const [question, answer] = shown(view, { feedback: { run_1: given } });
  assert.deepEqual([question?.kind, (answer as Answer).feedback], ["question", given]);
});

test("files of a question and of an answer are cards, and their names until those are there", async () => {
  const view = { messages: [message("q", "user", { parts: [{ type: "text", text: "See" }, FILE] }), message("a", "assistant", { parts: [FILE] })], runs: [run("run_1", "completed")] };
  const nodes = shown(view).map((entry) => showEntry(entry, { ...scene, load: (() => new Promise(() => undefined)) as never }).node);
  assert.deepEqual(nodes.map((node) => node.querySelector(".file.photo")?.textContent), ["a.png", "a.png"]);
  const cards = shown(view).map((entry) => showEntry(entry, scene).node);
  await new Promise((resolve) => setTimeout(resolve));
  assert.deepEqual(cards.map((node) => node.querySelector(".file")?.textContent), ["card", "card"]);
});

test("sources of a text that was cut stay at their places in the whole of it", () => {
  const parts = [{ type: "text", text: "🙂 One", citations: [{ start: 0, end: 5, title: "A" }] }] as const;
  const more = [{ type: "text", text: " and two", citations: [{ start: 1, end: 8, title: "B" }, { title: "C" }] }] as const;
  const messages = [message("q", "user"), message("a", "assistant", { parts, stop: "length" }), message("b", "assistant", { parts: more })];
  const [, answer] = shown({ messages, runs: [run("run_1", "completed")] });
  const [block] = (answer as Answer).blocks;
  assert.deepEqual(block?.kind === "text" && [block.text, block.citations?.map(({ start, end, title }) => [start, end, title])], ["🙂 One and two", [[0, 5, "A"], [6, 13, "B"], [undefined, undefined, "C"]]]);
});

test("what could be asked next is text where nothing is offered, and nothing in the answer itself where it is", () => {
  const renders = [{ id: "r", call: "c", message: "a", kind: "suggestions", payload: { items: [{ label: "L", prompt: "P" }] }, text: "L: P" }];
  const view = { messages: [message("q", "user"), message("a", "assistant")], runs: [run("run_1", "completed")], renders };
  const drawn = (offers: object): string | null | undefined => showEntry(shown(view)[1] as Answer, { ...scene, ...offers }).node.querySelector(".blocks")?.textContent;
  assert.deepEqual([drawn({}), drawn({ offers: {} })], ["aL: P", "a"]);
});
