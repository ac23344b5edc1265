import assert from "node:assert/strict";
import { test } from "node:test";
import { JSDOM } from "jsdom";
import { fileCard } from "../src/answers/file.js";
import { ANSWERS } from "../src/answers/words.js";
import type { Scene } from "../src/transcript/scene.js";
import { STRINGS } from "../src/words/strings.js";

const { window } = new JSDOM("<!doctype html><body>");
let near: (() => void) | null = null;
const seen = class {
  constructor(call: (entries: readonly { isIntersecting: boolean }[]) => void) {
    near = () => call([{ isIntersecting: true }]);
  }
  observe(): void {}
  disconnect(): void {}
};
Object.assign(globalThis, { document: window.document, AbortController: window.AbortController, AbortSignal: window.AbortSignal, Node: window.Node, IntersectionObserver: seen, ResizeObserver: class { observe(): void {} disconnect(): void {} } });

const settled = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 5));

function shown(name: string, mime: string): { host: HTMLElement; asked: string[] } {
  const asked: string[] = [];
  const host = document.createElement("div");
  document.body.replaceChildren(host);
  const request = (path: string): Promise<Response> => (asked.push(path), Promise.reject(new Error("503")));
  fileCard(host, { file: "file/1", name, mime, size: 2_345_678 }, { request, strings: STRINGS } as unknown as Scene, ANSWERS);
  return { host, asked };
}

test("a file is a card with its name as it is, its type and its size; one that cannot be had says so", async () => {
  const { host, asked } = shown("<b>a</b>\u202efdp.exe", "application/pdf");
  const card = host.querySelector("button");
  assert.equal(card?.querySelector("b")?.textContent, "Download: <b>a</b>\\u{202e}fdp.exe");
  assert.match(card?.querySelector(".file-about")?.textContent ?? "", /^EXE · 2[.,]35 MB$/);
  card?.click();
  await settled();
  assert.deepEqual(asked, ["/v1/files/file%2F1"]);
  assert.equal(card?.querySelector("[role=alert]")?.textContent, "This file could not be loaded.");
  assert.equal(card?.getAttribute("aria-busy"), null);
  card?.click();
  assert.equal(asked.length, 2, "it can be tried again");
});

test("a picture is fetched when it comes near, and is a card where it cannot be had; SVG is a file", async () => {
  const { host, asked } = shown("a.png", "image/png");
  assert.deepEqual([asked, host.querySelector(".picture-card")?.getAttribute("aria-busy")], [[], "true"]);
  near?.();
  for (let tries = 0; tries < 400 && !host.querySelector("[role=alert]:not(:empty)"); tries += 1) await settled();
  assert.equal(host.querySelector("[role=alert]:not(:empty)")?.textContent, "This file could not be loaded.");
  assert.ok(host.querySelector("button.file-card"));
  assert.ok(shown("a.svg", "image/svg+xml").host.querySelector("button.file-card"));
});
