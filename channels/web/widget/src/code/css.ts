/** CSS, SCSS and Less for the highlighter: its own grammars of them list every property there is, and are larger than all else here. */

import type { HLJSApi, Language, Mode } from "highlight.js";

/** Return the grammar: properties and values by where they stand, not by name. */
export function css(hljs: HLJSApi): Language {
  const comments: Mode[] = [hljs.C_BLOCK_COMMENT_MODE, { scope: "comment", match: /(?<=^|\s)\/\/.*$/ }];
  const strings: Mode[] = [hljs.APOS_STRING_MODE, hljs.QUOTE_STRING_MODE];
  const variable: Mode = { scope: "variable", match: /(--|[$@])[\w-]+/ };
  const values: Mode[] = [
    ...comments,
    ...strings,
    { scope: "number", match: /#[\da-f]{3,8}\b|[+-]?(\d+(\.\d+)?|\.\d+)(%|[a-z]+)?/i },
    { scope: "built_in", match: /[\w-]+(?=\()/ },
    { scope: "keyword", match: /!\w+/ },
    variable,
  ];
  const declaration: Mode = {
    begin: [/[\w-]+|\$[\w-]+/, /\s*:(?=[^{}]*[;}])/],
    beginScope: { 1: "attribute" },
    end: /(?=[;}])/,
    contains: values,
  };
  const selectors: Mode[] = [
    { scope: "keyword", match: /@(media|supports|container|layer|import|font-face|keyframes|page|property|namespace|charset|include|mixin|use|if|else|for|each|return|extend)\b/ },
    { scope: "selector-id", match: /#[a-z_-][\w-]*/i },
    { scope: "selector-class", match: /\.[a-z_-][\w-]*/i },
    { scope: "selector-pseudo", match: /::?[a-z-]+/ },
    { scope: "selector-tag", match: /(?<=^|[\s,>+~(])[a-z][\w-]*(?=[\s,.:#[{>+~)])/ },
  ];
  const block: Mode = { begin: /\{/, end: /\}/ };
  const inside: Mode[] = [...comments, ...strings, declaration, ...selectors, variable, block];
  block.contains = inside;
  return { name: "CSS", aliases: ["scss", "less"], contains: inside };
}
