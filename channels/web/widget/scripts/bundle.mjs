/** How the widget and the operator's page are bundled: one ES module each, its style sheets minified inside, and one for tables and charts. */

import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { build, transform } from "esbuild";

export const HOME = fileURLToPath(new URL("..", import.meta.url));
/** What draws tables and charts, which both others load when the first is to be shown. */
const DRAWN = { name: "parley-renders.js", entry: "src/drawn/main.ts", budget: 13 * 1024 };
/** The bundles: what each begins with, where it is committed, and how many bytes it may have with gzip. */
export const BUNDLES = [
  DRAWN,
  { name: "parley-chat.js", entry: "src/define.ts", budget: 34.75 * 1024 },
  { name: "parley-operator.js", entry: "src/operator/main.ts", budget: 44 * 1024 },
];

/** Return where the bundle *name* is committed. */
export function placeOf(name) {
  return fileURLToPath(new URL(`../../static/${name}`, import.meta.url));
}

const MARKED = " Contains marked, MIT, (c) 2018+ MarkedJS, (c) 2011-2018 Christopher Jeffrey.";

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

/**
 * Of marked only the lexer is used, but its one file ends by building a whole default instance, which keeps everything else alive.
 * Without that end the parser, the renderer and the rest are dropped: 4 kB with gzip.
 */
const lexerOnly = {
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

/** Return the bytes of every bundle by its name. */
export async function bundles() {
  const drawn = await bundle(DRAWN);
  const address = `./${DRAWN.name}?v=${hashOf(drawn)}`;
  const others = BUNDLES.filter((each) => each !== DRAWN);
  const made = await Promise.all(others.map(async (each) => [each.name, await bundle(each, { DRAWN_SCRIPT: JSON.stringify(address) })]));
  return new Map([[DRAWN.name, drawn], ...made]);
}

/** Return what names the content *bytes* in an address; `channels/web/routes.py` computes the same. */
function hashOf(bytes) {
  return createHash("sha256").update(bytes).digest("hex").slice(0, 16);
}

/** Return the bytes of the bundle *name* that begins with *entry*. */
async function bundle({ name, entry }, define = {}) {
  const result = await build({
    absWorkingDir: HOME,
    entryPoints: [entry],
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2022",
    charset: "utf8",
    legalComments: "none",
    define,
    banner: { js: `/* ${name.replace(".js", "")}, MIT.${name === DRAWN.name ? "" : MARKED} */` },
    plugins: [css, lexerOnly],
    write: false,
  });
  return Buffer.from(result.outputFiles[0].contents);
}
