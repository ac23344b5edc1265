/** Write the bundle that the server gives out and that is committed. */

import { writeFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";
import { bundle, STATIC } from "./bundle.mjs";

const bytes = await bundle();
await writeFile(STATIC, bytes);
console.log(`parley-chat.js: ${bytes.length} bytes, ${gzipSync(bytes, { level: 9 }).length} with gzip`);
