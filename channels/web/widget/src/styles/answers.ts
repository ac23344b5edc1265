/** What answers look like: the widget has it with the extras, and shows no answer before. */

import blocks from "./blocks.css";
import text from "./text.css";
import tools from "./tools.css";

export const ANSWERS = text + tools + blocks;
