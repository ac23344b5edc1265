/** The words of the launcher; a page replaces them by `strings.launcher`. */

export const LAUNCHER = {
  open: "Open the conversation",
  close: "Close the conversation",
  one: "1 new message",
  some: "{count} new messages",
};

export type LauncherWords = typeof LAUNCHER;
