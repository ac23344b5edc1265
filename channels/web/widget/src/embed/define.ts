/** The bundle's entry: registers `<parley-chat>`, unless a page has it already, and does what the page has asked for so far. */

import { takeCommands } from "./commands.js";
import { ParleyChat } from "./element.js";

if (!customElements.get("parley-chat")) {
  customElements.define("parley-chat", ParleyChat);
  takeCommands();
}

export { ParleyChat };
