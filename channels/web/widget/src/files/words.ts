/** The words of files that are being attached; a page replaces any of them by `strings.files`. */

export const FILES = {
  attach: "Attach files",
  drop: "Drop files here",
  list: "Files to send",
  remove: "Remove {name}",
  cancel: "Cancel {name}",
  retry: "Try again: {name}",
  sending: "{name}: {percent} sent",
  ready: "{name} is ready to send",
  checking: "Checking…",
  wait: "Your message goes out when the files are there. Wait a moment, or remove them.",
  faulty: "Remove the file that cannot be sent, or try it again.",
  large: "This file is too large: at most {most}.",
  empty: "This file is empty.",
  kind: "Files of this kind cannot be sent here.",
  many: "Files for one message: at most {count}.",
  network: "The file could not be sent. Check your connection.",
  refused: "The file could not be sent.",
  limited: "That was a lot of files. Try again later.",
};

export type FileWords = typeof FILES;
