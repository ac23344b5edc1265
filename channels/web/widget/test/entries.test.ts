import assert from "node:assert/strict";
import { test } from "node:test";
import type { Conversation } from "../src/talk/conversation.js";
import { entriesOf } from "../src/transcript/entries.js";
import { EMPTY } from "../src/log/state.js";
import { fold, framesOf } from "./golden.js";

function shown(name: string): readonly (readonly [string | null, string])[] {
  const rest: Omit<Conversation, "view"> = { outbox: [], link: "open", problem: null, lost: false, stopping: [], decisions: {}, agent: null };
  const entries = entriesOf({ view: fold(framesOf(name), EMPTY), ...rest });
  return entries.map((entry) => {
    if (entry.kind === "question") return ["?", entry.text] as const;
    return [entry.by, entry.blocks.map((block) => ("text" in block ? block.text : block.kind)).join(" ")] as const;
  });
}

test("a person's answer is an entry of its own, with the name, between those of the agent", () => {
  assert.deepEqual(shown("replied"), [
    ["?", "one"],
    [null, "tool"],
    ["Meg", "At once."],
    [null, "One."],
    ["Meg", "Later."],
    ["?", "two"],
    [null, "Half"],
    ["Meg", "Meanwhile."],
    ["?", "three"],
    [null, "Three."],
  ]);
});
