/** How the widget and the operator's page are bundled: one ES module each, its style sheets minified inside, and chunks that both load when needed. */

import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { build, transform } from "esbuild";

export const HOME = fileURLToPath(new URL("..", import.meta.url));
const KB = 1024;
/** The words of a language each: the extras load them, so that the first load has none of their hashes. */
const LANGUAGES = ["de", "fr", "es", "pt", "ja", "ar"].map((tag) => ({ name: `parley-words-${tag}.js`, entry: `src/languages/${tag}.ts`, budget: 6 * KB }));
const MARKED = " Contains marked, MIT, (c) 2018+ MarkedJS, (c) 2011-2018 Christopher Jeffrey.";
// Its licence wants to be read wherever it goes.
const HIGHLIGHTED = ` Contains highlight.js: ${(await readFile(new URL("../node_modules/highlight.js/LICENSE", import.meta.url), "utf8")).trim()}\n`;
/**
 * The chunks, each loaded when it is first needed, by `load` in `src/lazy.ts`: an own bundle, because with shared pieces the first
 * load would be several files.
 */
export const CHUNKS = [
  { name: "parley-markdown.js", entry: "src/markdown/main.ts", budget: 14 * KB, of: MARKED }, // what answers say
  { name: "parley-renders.js", entry: "src/drawn/main.ts", budget: 8 * KB }, // tables, and what is around charts
  { name: "parley-charts.js", entry: "src/drawn/chart.ts", budget: 7 * KB }, // plain charts
  { name: "parley-cards.js", entry: "src/cards/main.ts", budget: 13 * KB }, // questions about calls
  { name: "parley-answers.js", entry: "src/answers/main.ts", budget: 9 * KB }, // what is around answers and questions
  { name: "parley-code.js", entry: "src/code/main.ts", budget: 30 * KB, of: HIGHLIGHTED }, // colours of code
  { name: "parley-tools.js", entry: "src/tools/main.ts", budget: 5 * KB }, // calls of tools
  { name: "parley-files.js", entry: "src/files/main.ts", budget: 5 * KB }, // attachments
  { name: "parley-host.js", entry: "src/host/main.ts", budget: 3 * KB }, // events and commands of the page around the element
  { name: "parley-launcher.js", entry: "src/launcher/main.ts", budget: 4 * KB }, // the bubble in a corner, and its panel
  { name: "parley-notice.js", entry: "src/notice/main.ts", budget: 5 * KB }, // what a site has to set otherwise
  { name: "parley-anonymous.js", entry: "src/anonymous/main.ts", budget: 1 * KB }, // tokens of visitors without a name
  { name: "parley-extras.js", entry: "src/extras/main.ts", budget: 8 * KB }, // start screen, announcements, languages, a newer version
  { name: "parley-list.js", entry: "src/list/main.ts", budget: 6 * KB }, // conversations: their list, and what is done with whole ones
];
/** All bundles: what each begins with, where it is committed, and how many bytes it may have with gzip. */
export const BUNDLES = [
  ...LANGUAGES,
  ...CHUNKS,
  { name: "parley-chat.js", entry: "src/embed/define.ts", budget: 34 * KB },
  { name: "parley-frame.js", entry: "src/iframe/main.ts", budget: 2 * KB }, // of the page that is embedded as an iframe
  { name: "parley-operator.js", entry: "src/operator/main.ts", budget: 44 * KB },
];
/** The one line of a site: a script as old pages know them, that adds a launcher and loads the widget. */
export const LOADER = { name: "parley-loader.js", entry: "src/loader/main.ts", budget: 1 * KB, format: "iife" };
/** What the server reads: the version of this build, and the integrity and size of each file. */
export const MANIFEST = "widget.json";

/** Return where the bundle *name* is committed. */
export function placeOf(name) {
  return fileURLToPath(new URL(`../../static/${name}`, import.meta.url));
}

/** Style sheets are imported as minified text. */
export const css = {
  name: "css",
  setup(builder) {
    builder.onLoad({ filter: /\.css$/ }, async ({ path }) => {
      const { code } = await transform(await readFile(path, "utf8"), { loader: "css", minify: true });
      return { contents: code.trim(), loader: "text" };
    });
  },
};

/** Chunks are found by the bundler, by `src/package/lazy.ts`, and not by their address beside the script. */
export const found = {
  name: "found-chunks",
  setup(builder) {
    builder.onResolve({ filter: /\/lazy\.js$/ }, ({ importer }) => {
      return importer.endsWith("package/lazy.ts") ? undefined : { path: fileURLToPath(new URL("../src/package/lazy.ts", import.meta.url)) };
    });
  },
};

/**
 * Of marked only the lexer is used, but its one file ends by building a whole default instance, which keeps everything else alive.
 * Without that end the parser, the renderer and the rest are dropped: 4 kB with gzip.
 */
export const lexerOnly = {
  name: "marked-lexer-only",
  setup(builder) {
    builder.onLoad({ filter: /marked\.esm\.js$/ }, async ({ path }) => {
      const source = await readFile(path, "utf8");
      const lexer = /export\{.*?(\w+) as Lexer[,}]/.exec(source)?.[1];
      const end = /;var (\w+)=new \w+;function (\w+)\(\w+,\w+\)\{return \1\.parse\(/.exec(source)?.index;
      if (!lexer || end === undefined) throw new Error("marked has changed its shape: adapt or remove `lexerOnly` in scripts/bundle.mjs");
      return { contents: `${source.slice(0, end)};export{${lexer} as Lexer};`, loader: "js" };
    });
  },
};

/** Return the bytes of every file of `static` that is built, by its name: the bundles, and the manifest. */
export async function built() {
  const words = await bundles(LANGUAGES);
  const chunks = await bundles(CHUNKS, { CHUNKS: pinsOf(words) });
  const pages = BUNDLES.filter(({ name }) => !chunks.has(name) && !words.has(name));
  const make = (build) => bundles(pages, { CHUNKS: pinsOf(chunks), BUILD: JSON.stringify(build) });
  const load = (made) => bundles([LOADER], { CHAT: JSON.stringify(hashOf("sha256", made.get("parley-chat.js"))) });
  const first = await make("");
  const build = versionOf([...words, ...chunks, ...first, ...(await load(first))]);
  const made = await make(build);
  const all = new Map([...words, ...chunks, ...made, ...(await load(made))]);
  const files = Object.fromEntries([...all].map(([name, bytes]) => [name, { integrity: `sha384-${hashOf("sha384", bytes)}`, bytes: bytes.length }]));
  return all.set(MANIFEST, Buffer.from(`${JSON.stringify({ build, files }, null, 1)}\n`));
}

async function bundles(list, define) {
  return new Map(await Promise.all(list.map(async (each) => [each.name, await bundle(each, define)])));
}

/** Return the hashes of *chunks*, as `src/lazy.ts` has them. */
function pinsOf(chunks) {
  return JSON.stringify(Object.fromEntries([...chunks].map(([name, bytes]) => [keyOf(name), hashOf("sha256", bytes)])));
}

/** Return the key of the chunk *name* in `CHUNKS` of `src/lazy.ts`. */
function keyOf(name) {
  return name.replace(/^parley-|\.js$/g, "");
}

/** Return the version of what is built: it changes with any byte of it. */
function versionOf(files) {
  const all = createHash("sha256");
  for (const [name, bytes] of files) all.update(name).update(bytes);
  return all.digest("hex").slice(0, 12);
}

function hashOf(kind, bytes) {
  return createHash(kind).update(bytes).digest("base64");
}

/** Return the bytes of the bundle *name* that begins with *entry*. */
async function bundle({ name, entry, format = "esm", of = "" }, define = {}) {
  const result = await build({
    absWorkingDir: HOME,
    entryPoints: [entry],
    bundle: true,
    minify: true,
    format,
    target: "es2022",
    charset: "utf8",
    legalComments: "none",
    define,
    banner: { js: `/* ${name.replace(".js", "")}, MIT.${of} */` },
    plugins: [css, lexerOnly],
    write: false,
  });
  return Buffer.from(result.outputFiles[0].contents);
}
