import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

declare const GOLDEN: string;
const ROOT = join(GOLDEN, "..", "..");
const HOME = join(ROOT, "channels", "web", "widget", "src");
const sources = (end: string): readonly [string, string][] =>
  (readdirSync(HOME, { recursive: true }) as string[]).filter((name) => name.endsWith(end) && !name.startsWith("operator")).map((name) => [name, readFileSync(join(HOME, name), "utf8")]);
const doc = readFileSync(join(ROOT, "docs", "widget-theme.md"), "utf8");
const sheets = sources(".css");

test("the documented properties are those that the sheets read", () => {
  const read = new Set(sheets.flatMap(([, css]) => [...css.matchAll(/var\((--parley-[a-z0-9-]+)/g)].map(([, name]) => name as string)));
  const listed = new Set([...doc.matchAll(/^\| `(--parley-[a-z0-9-]+)`/gm)].map(([, name]) => name as string));
  assert.deepEqual([...listed].sort(), [...read].sort());
});

test("the documented parts are those that the nodes have", () => {
  const made = new Set(sources(".ts").flatMap(([, code]) => [...code.matchAll(/\bpart: "([a-z -]+)"/g)].flatMap(([, names]) => (names as string).split(" "))));
  const listed = new Set([...doc.matchAll(/^\| `::part\(([a-z-]+)\)`/gm)].map(([, name]) => name as string));
  assert.deepEqual([...listed].sort(), [...made].sort());
});

test("sheets name no side of the screen, no width of it and no scheme of the system", () => {
  for (const [name, css] of sheets) {
    const plain = css.replace(/\/\*[^]*?\*\//g, "").replace(/to right|\.(left|right)\b/g, "");
    assert.doesNotMatch(plain, /(?<![\w-])(left|right)\s*:|(margin|padding|border)-(left|right)|text-align:\s*(left|right)|float:/, name);
    assert.doesNotMatch(plain, /prefers-color-scheme/, name);
    if (name !== join("launcher", "launcher.css")) assert.doesNotMatch(plain, /@media[^{]*(max|min)-width/, name);
  }
});

const linear = (hex: string): number[] => (hex.length === 4 ? [...hex.slice(1)].map((each) => each + each) : hex.slice(1).match(/../g) ?? []).map((pair) => parseInt(pair, 16) / 255).map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
const light = (hex: string): number => linear(hex).reduce((sum, each, at) => sum + each * ([0.2126, 0.7152, 0.0722][at] as number), 0);
const contrast = (a: string, b: string): number => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);

test("text has a contrast of 4.5 on every ground that it stands on, and signs of 3", () => {
  const base = sheets.find(([name]) => name === join("styles", "base.css"))?.[1] ?? "";
  const all = new Map([...base.matchAll(/--([a-z-]+): var\([^,]+, light-dark\((#\w+), (#\w+)\)\)/g)].map(([, name, ...pair]) => [name as string, pair as [string, string]]));
  for (const side of [0, 1] as const) {
    const of = (name: string): string => (all.get(name) as [string, string])[side];
    for (const ground of ["background", "surface"]) {
      for (const text of ["text", "muted", "accent", "danger"]) assert.ok(contrast(of(text), of(ground)) >= 4.5, `${text} on ${ground} (${side}): ${contrast(of(text), of(ground))}`);
      for (const sign of ["good", "wait"]) assert.ok(contrast(of(sign), of(ground)) >= 3, `${sign} on ${ground} (${side}): ${contrast(of(sign), of(ground))}`);
    }
    assert.ok(contrast(of("accent-text"), of("accent")) >= 4.5);
  }
});
