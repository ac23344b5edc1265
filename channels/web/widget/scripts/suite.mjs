/** Run files of tests in this process, one after the other; each begins with the globals that a process begins with. */

import { test } from "node:test";
import { basename } from "node:path";
import { pathToFileURL } from "node:url";

const first = Object.getOwnPropertyDescriptors(globalThis);

/** Give every global the value that it had at first, and remove those that a file has added. */
function restore() {
  for (const name of Reflect.ownKeys(globalThis)) if (!Object.hasOwn(first, name)) Reflect.deleteProperty(globalThis, name);
  for (const name of Reflect.ownKeys(first)) {
    const [now, then] = [Object.getOwnPropertyDescriptor(globalThis, name), first[name]];
    if (now?.value !== then.value || now?.get !== then.get) Object.defineProperty(globalThis, name, then);
  }
}

for (const file of process.argv.slice(2)) {
  await import(pathToFileURL(file).href);
  await test(`${basename(file)} is done`, restore); // tests run in the order in which they were made
}
