import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { doubt, unmistakable } from "../src/legible.js";
import { CARDS, doubtful } from "../src/cards/words.js";

declare const GOLDEN: string; // set by scripts/test.mjs

interface Vector {
  readonly text: string;
  readonly unmistakable: string;
  readonly doubt: string | null;
}
const VECTORS = JSON.parse(readFileSync(join(GOLDEN, "legible.json"), "utf8")) as readonly Vector[];

test("text of a card is written as every other surface writes it", () => {
  for (const { text, unmistakable: wanted } of VECTORS) assert.equal(unmistakable(text), wanted, JSON.stringify(text));
});

test("text that mixes scripts, or only looks Latin, is doubted as on every other surface", () => {
  for (const { text, doubt: wanted } of VECTORS) {
    const found = doubt(text);
    assert.equal(found && doubtful(found, CARDS), wanted, JSON.stringify(text));
  }
});
