import assert from "node:assert/strict";
import { test } from "node:test";
import css from "../src/drawn/drawn.css";
import { contrast } from "./contrast.js";

type Triple = readonly [number, number, number];
type Matrix = readonly [Triple, Triple, Triple];

const dot = (a: Triple, b: Triple): number => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
const times = (matrix: Matrix, vector: Triple): Triple => [dot(matrix[0], vector), dot(matrix[1], vector), dot(matrix[2], vector)];
const each = (vector: Triple, change: (value: number) => number): Triple => [change(vector[0]), change(vector[1]), change(vector[2])];

/** How colours are seen: by most people, and without one of the three cones (Machado 2009, severity 1, linear RGB). */
const EYES: Readonly<Record<string, Matrix>> = {
  usual: [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
  deuteranopia: [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
  protanopia: [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
  tritanopia: [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
};
const LMS: Matrix = [[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566], [0.0883024619, 0.2817188376, 0.6299787005]];
const OKLAB: Matrix = [[0.2104542553, 0.793617785, -0.0040720468], [1.9779984951, -2.428592205, 0.4505937099], [0.0259040371, 0.7827717662, -0.808675766]];

const linear = (hex: string): Triple =>
  each([1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255) as unknown as Triple, (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
const seen = (hex: string, eyes: Matrix): Triple =>
  times(OKLAB, each(times(LMS, each(times(eyes, linear(hex)), (value) => Math.min(1, Math.max(0, value)))), Math.cbrt));

const all = [...css.matchAll(/--parley-chart-\d,\s*light-dark\((#[0-9a-f]{6}),\s*(#[0-9a-f]{6})\)/g)];
const [bright, dark] = [1, 2].map((at) => all.map((found) => found[at] as string)) as [string[], string[]];

for (const [name, colours, ground] of [["light", bright, "#ffffff"], ["dark", dark, "#17181d"]] as const) {
  test(`on a ${name} page every colour is seen, and the first four apart from each other by all eyes`, () => {
    assert.equal(new Set(colours).size, 8);
    for (const colour of colours) assert.ok(contrast(colour, ground) >= 3, `${colour} on ${ground}: ${contrast(colour, ground)}`);
    for (const [eyes, matrix] of Object.entries(EYES)) {
      const places = colours.slice(0, 4).map((colour) => seen(colour, matrix));
      places.forEach((a, at) => places.slice(at + 1).forEach((b) => assert.ok(Math.hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]) > 0.12, `${eyes} ${at}`)));
    }
  });
}
