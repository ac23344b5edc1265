/** The words of what went into calls of tools, and came out; a page replaces any of them by `strings.tools`. */

export const TOOLS = {
  yes: "yes",
  no: "no",
  none: "none",
  more: "Show all",
  rows: "Show all {n} rows",
  items: "Show all {n}",
};

export type ToolWords = typeof TOOLS;
