/** Build the npm package `parley-widget` into `dist/`: ES modules that a bundler takes apart, types, and the React wrapper. */

import { spawnSync } from "node:child_process";
import { cp, mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { build } from "esbuild";
import { built, css, found, HOME, lexerOnly, MANIFEST } from "./bundle.mjs";

const DIST = join(HOME, "dist");
await rm(DIST, { recursive: true, force: true });
await mkdir(DIST);
const version = JSON.parse(new TextDecoder().decode((await built()).get(MANIFEST))).build;
await build({
  absWorkingDir: HOME,
  entryPoints: { index: "src/package/index.ts", react: "src/package/react.ts" },
  outdir: "dist",
  bundle: true,
  splitting: true,
  format: "esm",
  target: "es2022",
  charset: "utf8",
  external: ["react"],
  define: { BUILD: JSON.stringify(version) },
  plugins: [css, found, lexerOnly],
});
const options = ["--noEmit", "false", "--declaration", "--emitDeclarationOnly", "--outDir", "dist/types", "--rootDir", "src"];
const types = spawnSync(process.execPath, [join(HOME, "node_modules/typescript/bin/tsc"), "-p", "tsconfig.package.json", ...options], { cwd: HOME, stdio: "inherit" });
if (types.status !== 0) process.exit(types.status ?? 1);
const entry = (name) => ({ types: `./types/package/${name}.d.ts`, default: `./${name}.js` });
const described = {
  name: "parley-widget",
  version: "0.1.0",
  description: "A conversation with a Parley agent, as a custom element and as a React component.",
  license: "MIT",
  type: "module",
  sideEffects: ["./index.js", "./chunk-*.js"],
  exports: { ".": entry("index"), "./react": entry("react") },
  peerDependencies: { react: ">=18" },
  peerDependenciesMeta: { react: { optional: true } },
};
await writeFile(join(DIST, "package.json"), `${JSON.stringify(described, null, 2)}\n`);
await cp(join(HOME, "README.md"), join(DIST, "README.md"));
