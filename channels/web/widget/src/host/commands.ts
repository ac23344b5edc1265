/** Commands of the page, from `window.parley`, to the elements that are on it. */

import type { Command } from "../embed/commands.js";
import type { ParleyChat } from "../embed/element.js";

/** The methods that a command may name, and `on`, which listens. */
const METHODS = ["open", "close", "toggle", "send", "newConversation", "setToken", "focus", "on"];

/** Do what *queue* holds for elements that are on the page by now; the rest stays in it. */
export function run(queue: Command[]): void {
  for (const command of queue.splice(0)) {
    const [name, ...rest] = typeof command === "function" ? ["", command] : command;
    const [method, id] = name.split(":").reverse() as [string, string?];
    const chat = (id === undefined ? document.querySelector("parley-chat") : document.getElementById(id)) as ParleyChat | null;
    if (typeof command !== "function" && !METHODS.includes(method)) console.warn(`parley: there is no command ${name}; there are ${METHODS.join(", ")}`);
    else if (!chat || !("newConversation" in chat)) queue.push(command);
    else if (typeof command === "function") command(chat);
    else if (method === "on") chat.addEventListener(`parley:${String(rest[0])}`, rest[1] as EventListener);
    else (chat[method as "send"] as (...given: unknown[]) => void)(...rest);
  }
}
