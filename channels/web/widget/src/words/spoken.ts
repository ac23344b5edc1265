/** Names of programs as words for people. */

/** Return *name*, of a tool or a field, in words: `find_order` is "Find order"; one of an MCP server without the server's. */
export function inWords(name: string): string {
  const words = name.replace(/^mcp__.+?__/, "").replace(/[_-]+/g, " ").trim() || name;
  return words.charAt(0).toUpperCase() + words.slice(1);
}
