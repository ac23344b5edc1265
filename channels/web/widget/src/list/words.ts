/** The words of the list of conversations; a page replaces any of them by `strings.list`. */

export const LIST = {
  close: "Close",
  search: "Search your conversations",
  none: "You have no conversations yet.",
  nothing: "Nothing was found.",
  more: "Show more",
  untitled: "Conversation",
  current: "open now",
  unread: "unread",
  options: "Options for {title}",
  rename: "Rename",
  title: "Title",
  save: "Save",
  cancel: "Cancel",
  remove: "Delete",
  sure: "Delete this conversation for good?",
  keep: "Keep",
  link: "Copy link",
  copied: "Link copied",
};

export type ListWords = typeof LIST;
