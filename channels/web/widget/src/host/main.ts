/** The chunk of the page around the element: what happened as events, and what the page asked for before the script was there. */

export { run } from "./commands.js";
export { attend, type Observe } from "./attend.js";
export { pageCalls, type PageCalls } from "./pagecalls.js";
