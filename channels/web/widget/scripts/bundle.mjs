/** How the widget is bundled: one ES module, its style sheet minified inside. */

import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { build, transform } from "esbuild";

export const HOME = fileURLToPath(new URL("..", import.meta.url));
export const STATIC = fileURLToPath(new URL("../../static/parley-chat.js", import.meta.url));

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

/** Return the bundle's bytes. */
export async function bundle() {
  const result = await build({
    absWorkingDir: HOME,
    entryPoints: ["src/define.ts"],
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2022",
    charset: "utf8",
    legalComments: "none",
    banner: { js: "/* parley-chat, MIT. Contains marked, MIT, (c) 2018+ MarkedJS, (c) 2011-2018 Christopher Jeffrey. */" },
    plugins: [css, lexerOnly],
    write: false,
  });
  return Buffer.from(result.outputFiles[0].contents);
}
