/** Write the bundles that the server gives out and that are committed. */

import { writeFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";
import { bundles, placeOf } from "./bundle.mjs";

for (const [name, bytes] of await bundles()) {
  await writeFile(placeOf(name), bytes);
  console.log(`${name}: ${bytes.length} bytes, ${gzipSync(bytes, { level: 9 }).length} with gzip`);
}
