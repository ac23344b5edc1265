/** The words of what the frame gets after its first paint; a page replaces any of them by `strings.extras`. */

export const EXTRAS = {
  prompts: "Suggestions",
  connecting: "Connecting…",
  update: "A newer version of this chat is ready.",
  reload: "Reload",
  code: "Code block.",
};

export type ExtraWords = typeof EXTRAS;
