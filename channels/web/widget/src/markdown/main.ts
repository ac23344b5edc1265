/** The chunk of markdown, which every conversation needs, and the first paint does not: it is loaded right after that. */

export { markdownNodes } from "./markdown.js";
export { textIn } from "./text.js";
