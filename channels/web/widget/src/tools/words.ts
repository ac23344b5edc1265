/** The words of calls of tools; a page replaces any of them by `strings.tools`. */

import { merged } from "../words/merge.js";
import type { Strings } from "../words/strings.js";

export const TOOLS = {
  arguments: "Input",
  result: "Result",
  truncated: "The result was shortened.",
  used: "Used {n} tools",
  /** Of those that went wrong: such as "2 failed". */
  counted: "{n} {state}",
  seconds: "{n} s",
  yes: "yes",
  no: "no",
  none: "none",
  more: "Show all",
  rows: "Show all {n} rows",
  items: "Show all {n}",
};

export type ToolWords = typeof TOOLS;
/** All words, those of calls whole. */
export type ToolStrings = Strings & { readonly tools: ToolWords };

/** Return *strings* with every word of calls. */
export function whole(strings: Strings): ToolStrings {
  const { arguments: given = TOOLS.arguments, result = TOOLS.result, truncated = TOOLS.truncated } = strings;
  return { ...strings, tools: merged({ ...TOOLS, arguments: given, result, truncated }, strings.tools) };
}
