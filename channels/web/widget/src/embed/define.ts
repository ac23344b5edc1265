/** The bundle's entry: registers `<parley-chat>`, unless a page has it already. */

import { ParleyChat } from "./element.js";

if (!customElements.get("parley-chat")) customElements.define("parley-chat", ParleyChat);

export { ParleyChat };
