import assert from "node:assert/strict";
import { test } from "node:test";
import { JSDOM } from "jsdom";
import type { Conversation } from "../src/talk/conversation.js";
import { entriesOf, type Answer } from "../src/transcript/entries.js";
import { showEntry } from "../src/transcript/entry.js";
import { drawn as draw } from "../src/transcript/renders.js";
import type { Scene } from "../src/transcript/scene.js";
import type { Render, ViewState } from "../src/log/state.js";
import { STRINGS } from "../src/words/strings.js";
import { fold, framesOf } from "./golden.js";

const { window } = new JSDOM("<!doctype html><body>");
Object.assign(globalThis, { document: window.document, AbortController: window.AbortController, AbortSignal: window.AbortSignal, Node: window.Node });

const frames = framesOf("rendered");
const answersOf = (view: ViewState): readonly Answer[] =>
  entriesOf({ view, outbox: [], decisions: {} } as unknown as Conversation).filter((entry) => entry.kind === "answer");

const never: Scene = { strings: STRINGS, request: () => Promise.reject(new Error("asked")), load: () => Promise.reject(new Error("loaded")), decide: () => undefined };

test("a render of an unknown kind is shown as text below its call", () => {
  const [answer] = answersOf(fold(frames));
  assert.deepEqual(answer?.blocks.map(({ kind }) => kind), ["text", "tool", "render", "text"]);
  const { node } = showEntry(answer as Answer, never);
  assert.equal(node.querySelector("figcaption")?.textContent, "Who drinks what");
  assert.equal(node.querySelector("pre.render")?.textContent, "tea: 3\ncoffee: 4");
});

test("a visitor who sees no tools sees the render", () => {
  const seen = frames.filter(({ type }) => !type.startsWith("tool.")).map((frame) => {
    const data = frame.data as { parts?: readonly { type: string }[] };
    return data.parts ? { ...frame, data: { ...data, parts: data.parts.filter(({ type }) => type !== "tool_call") } } : frame;
  });
  const [answer] = answersOf(fold(seen as typeof frames));
  assert.deepEqual(answer?.blocks.map(({ kind }) => kind), ["text", "render", "text"]);
});


test("a renderer of a kind is one function, and text is never markup", () => {
  const render: Render = { id: "ren_1", call: "call_1", message: null, kind: "bar", payload: { n: 3 }, text: "<b>3</b>" };
  const drawn = (given: Render): HTMLElement => Object.assign(document.createElement("output"), { textContent: String(given.payload["n"]) });
  assert.equal(draw(render, never, new Map([["bar", drawn]])).outerHTML, "<output>3</output>");
  assert.equal(draw(render, never).textContent, "<b>3</b>");
});

test("a table is its text until what draws it is there, and stays it when that cannot be loaded", async () => {
  const render: Render = { id: "ren_1", call: "call_1", message: null, kind: "table", title: "T", payload: {}, text: "a  b" };
  const shown: unknown[] = [];
  const loaded = Promise.resolve({ show: (host: HTMLElement, given: Render) => void shown.push(given, host.textContent) });
  assert.equal(draw(render, { ...never, load: (() => loaded) as unknown as Scene["load"] }).textContent, "Ta  b");
  await loaded;
  assert.deepEqual(shown, [render, "Ta  b"]);
  const host = draw(render, never);
  await Promise.resolve();
  assert.equal(host.textContent, "Ta  b");
});
