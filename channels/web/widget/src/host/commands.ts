/** Commands of the page, from `window.parley`, to the elements that are on it. */

import { addressed, drain } from "../embed/addressed.js";
import type { Command } from "../embed/commands.js";

/** The methods that a command may name, and `on`, which is done before this chunk is there. */
const METHODS = ["open", "close", "toggle", "send", "newConversation", "setToken", "setContext", "focus", "on"];

/** Do what *queue* holds for elements that are on the page by now; the rest stays in it. */
export function run(queue: Command[]): void {
  drain(queue, (command) => {
    const { method, chat, rest } = addressed(command);
    if (typeof command === "function") {
      if (chat) command(chat);
      return chat !== null;
    }
    if (!METHODS.includes(method)) {
      console.warn(`parley: there is no command ${command[0]}; there are ${METHODS.join(", ")}`);
      return true;
    }
    if (!chat || method === "on") return false;
    (chat[method as "send"] as (...given: unknown[]) => void)(...rest);
    return true;
  });
}
