import assert from "node:assert/strict";
import { OBSERVED } from "../src/embed/attributes.js";
import { standIn } from "./server.js";
import { testPage } from "./page.js";

const page = testPage("https://p.example/", standIn(() => new Response()).fetch);
const { document } = page.window;

page.test("the loader's element has every attribute that the element knows, and no other of the line", async () => {
  const script = document.createElement("script");
  const given = [...OBSERVED.filter((name) => name !== "server"), "dir", "id"];
  for (const name of [...given, "onclick", "elsewhere"]) script.setAttribute(`data-${name}`, `${name}-1`);
  script.type = "text/plain"; // jsdom runs no scripts; the address is what counts
  script.src = "https://parley.example/widget/0123456789ab/parley-loader.js";
  Object.defineProperty(document, "currentScript", { value: script, configurable: true });
  Object.assign(globalThis, { CHAT: "x".repeat(44) });
  console.error = () => undefined; // the script that it imports is not there
  await import("../src/loader/main.js");
  const chat = document.querySelector("parley-chat");
  const found = Object.fromEntries([...(chat?.attributes ?? [])].map(({ name, value }) => [name, value]));
  assert.deepEqual(found, { ...Object.fromEntries(given.map((name) => [name, `${name}-1`])), launcher: "", server: "https://parley.example" });
  for (const name of ["links", "conversation", "locale", "update"]) assert.ok(name in found, name);
});
