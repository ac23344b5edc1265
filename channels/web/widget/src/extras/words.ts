/** The words of what the frame gets after its first paint; a page replaces any of them by `strings.extras`. */

export const EXTRAS = {
  prompts: "Suggestions",
  connecting: "Connecting…",
  update: "A newer version of this chat is ready.",
  reload: "Reload",
  code: "Code block.",
};

export type ExtraWords = typeof EXTRAS;

/** What requests may come to after the start: a page replaces any of these by `strings.problems`. */
export const PROBLEMS: Readonly<Record<string, string>> = {
  session_closed: "This conversation is closed. Start a new one.",
  session_busy: "An answer is still being written. Try again when it is done.",
  session_open: "This conversation is still open.",
  already_decided: "This was decided already.",
  conflict: "Something has changed meanwhile. Try again.",
  too_large: "This message is too long.",
  invalid_request: "This could not be accepted. Change it and try again.",
};

/** Codes that are explained as others are: those that are no visitor's doing. */
const ALIKE: Readonly<Record<string, string>> = {
  invalid_json: "invalid_request", method_not_allowed: "invalid_request", idempotency_mismatch: "conflict", unknown_cursor: "conflict",
  managed_by_file: "forbidden", origin: "token", tool_in_use: "conflict", internal_error: "unavailable",
};

/** Let *problems* have a sentence for every code. */
export function complete(problems: Record<string, string>): void {
  for (const [code, text] of Object.entries(PROBLEMS)) problems[code] ??= text;
  for (const [code, like] of Object.entries(ALIKE)) problems[code] ??= problems[like] as string;
}
