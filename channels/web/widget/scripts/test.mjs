/** Bundle every test for node and run them all with node's own runner, in one process: jsdom takes a second to load. */

import { spawnSync } from "node:child_process";
import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { build } from "esbuild";
import { css, found, HOME } from "./bundle.mjs";

const SUITE = join(HOME, "scripts", "suite.mjs");
const out = join(HOME, "node_modules", ".cache", "parley-tests");
await rm(out, { recursive: true, force: true });
await mkdir(out, { recursive: true });
const tests = (await readdir(join(HOME, "test"))).filter((name) => name.endsWith(".test.ts"));
await build({
  absWorkingDir: HOME,
  entryPoints: tests.map((name) => `test/${name}`),
  outdir: out,
  outExtension: { ".js": ".mjs" },
  bundle: true,
  format: "esm",
  platform: "node",
  target: "node20",
  packages: "external",
  sourcemap: "inline",
  define: { BUILD: '"tested"', GOLDEN: JSON.stringify(join(HOME, "..", "..", "..", "tests", "golden")) },
  plugins: [css, found],
});
const files = tests.map((name) => join(out, name.replace(/\.ts$/, ".mjs")));
const { status } = spawnSync(process.execPath, ["--enable-source-maps", "--test-reporter=spec", SUITE, ...files], { stdio: "inherit", cwd: HOME });
process.exitCode = status ?? 1;
