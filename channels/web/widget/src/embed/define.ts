/** The bundle's entry: registers `<parley-chat>`, unless a page has it already, and does what the page has asked for so far. */

import { takeCommands } from "./commands.js";
import { ParleyChat } from "./element.js";

if (!customElements.get("parley-chat")) {
  takeCommands(); // before an element that is there already begins
  customElements.define("parley-chat", ParleyChat);
}

export { ParleyChat };
