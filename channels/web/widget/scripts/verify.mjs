/** Fail when the bundle is over its budget, is not what the sources give, or a source file has grown too long. */

import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { bundle, HOME, STATIC } from "./bundle.mjs";

const BUDGET = 34 * 1024; // bytes with gzip, without charts
const LONGEST = 400; // lines

const failures = [];
const fresh = await bundle();
const committed = await readFile(STATIC).catch(() => Buffer.alloc(0));
const size = gzipSync(fresh, { level: 9 }).length;
if (size > BUDGET) failures.push(`the bundle has ${size} bytes with gzip; the budget is ${BUDGET}`);
if (!fresh.equals(committed)) failures.push("static/parley-chat.js is not what the sources give: run `npm run build` and commit it");

for (const name of await readdir(join(HOME, "src"))) {
  const lines = (await readFile(join(HOME, "src", name), "utf8")).split("\n").length;
  if (lines > LONGEST) failures.push(`src/${name} has ${lines} lines; split it`);
}
for (const failure of failures) console.error(`FAIL ${failure}`);
console.log(`bundle: ${size} of ${BUDGET} bytes with gzip`);
process.exitCode = failures.length ? 1 : 0;
