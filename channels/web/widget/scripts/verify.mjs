/** Fail when a bundle is over its budget, is not what the sources give, or a source file has grown too long. */

import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { built, BUNDLES, HOME, LOADER, MANIFEST, placeOf } from "./bundle.mjs";

const LONGEST = 400; // lines

const failures = [];
const files = await built();
for (const made of [...BUNDLES, LOADER, { name: MANIFEST, budget: Infinity }]) {
  const fresh = files.get(made.name);
  const committed = await readFile(placeOf(made.name)).catch(() => Buffer.alloc(0));
  const size = gzipSync(fresh, { level: 9 }).length;
  if (size > made.budget) failures.push(`${made.name} has ${size} bytes with gzip; the budget is ${made.budget}`);
  if (!fresh.equals(committed)) failures.push(`static/${made.name} is not what the sources give: run \`npm run build\` and commit it`);
  if (made.budget < Infinity) console.log(`bundle: ${size} of ${made.budget} bytes with gzip (${made.name})`);
}

for (const name of await readdir(join(HOME, "src"), { recursive: true })) {
  if (!/\.(ts|css)$/.test(name)) continue;
  const lines = (await readFile(join(HOME, "src", name), "utf8")).split("\n").length;
  if (lines > LONGEST) failures.push(`src/${name} has ${lines} lines; split it`);
}
for (const failure of failures) console.error(`FAIL ${failure}`);
process.exitCode = failures.length ? 1 : 0;
