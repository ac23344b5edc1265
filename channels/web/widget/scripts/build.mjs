/** Write the bundles that the server gives out and that are committed. */

import { writeFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";
import { bundle, BUNDLES, placeOf } from "./bundle.mjs";

for (const made of BUNDLES) {
  const bytes = await bundle(made);
  await writeFile(placeOf(made.name), bytes);
  console.log(`${made.name}: ${bytes.length} bytes, ${gzipSync(bytes, { level: 9 }).length} with gzip`);
}
