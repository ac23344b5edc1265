/** Write the bundles and their manifest, that the server gives out and that are committed. */

import { writeFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";
import { built, placeOf } from "./bundle.mjs";

for (const [name, bytes] of await built()) {
  await writeFile(placeOf(name), bytes);
  console.log(`${name}: ${bytes.length} bytes, ${gzipSync(bytes, { level: 9 }).length} with gzip`);
}
