/** `<ParleyChat>` for React: the custom element with its properties and events as props. The element itself is loaded in the browser alone. */

import { createElement, useEffect, useRef, type ReactElement, type Ref } from "react";
import type { ParleyChat as Chat } from "../embed/element.js";
import type { ParleyEventMap } from "../embed/events.js";

type Texts = "server" | "agent" | "token" | "tokenUrl" | "storageKey" | "heading" | "greeting" | "placeholder" | "position";
type Flags = "anonymous" | "launcher" | "debug";

/** The props of each event: `onMessage` for `parley:message`. */
const EVENTS = {
  onReady: "parley:ready",
  onOpen: "parley:open",
  onClose: "parley:close",
  onMessage: "parley:message",
  onTool: "parley:tool",
  onToolCall: "parley:tool-call",
  onApproval: "parley:approval",
  onFeedback: "parley:feedback",
  onError: "parley:error",
  onUnread: "parley:unread",
} as const satisfies Readonly<Record<string, keyof ParleyEventMap>>;
type Events = typeof EVENTS;

export type ParleyChatProps = { readonly [K in Texts]?: string | null } & { readonly [K in Flags]?: boolean } & {
  readonly [K in keyof Events]?: (event: ParleyEventMap[Events[K]]) => void;
} & {
  readonly getToken?: Chat["getToken"];
  readonly strings?: Chat["strings"];
  readonly className?: string;
  readonly id?: string;
  /** The element, with its methods. */
  readonly chatRef?: Ref<Chat>;
};

/** Return the element; a prop that has not changed is not set again, so that nothing begins again. */
export function ParleyChat({ className, id, chatRef, ...props }: ParleyChatProps): ReactElement {
  const own = useRef<Chat | null>(null);
  const last = useRef<Readonly<Record<string, unknown>>>({});
  const now = useRef<ParleyChatProps>(props);
  now.current = props;

  useEffect(() => {
    const chat = own.current;
    if (!chat) return;
    const before = last.current;
    const after: Readonly<Record<string, unknown>> = props;
    for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
      if (!(name in EVENTS) && before[name] !== after[name]) Object.assign(chat, { [name]: after[name] ?? (name === "strings" ? {} : null) });
    }
    last.current = after;
  });

  useEffect(() => {
    const chat = own.current;
    if (!chat) return undefined;
    const ended = new AbortController();
    for (const [prop, event] of Object.entries(EVENTS)) {
      const pass = (raised: Event): void => (now.current[prop as keyof Events] as ((event: Event) => void) | undefined)?.(raised);
      chat.addEventListener(event as string, pass, { signal: ended.signal });
    }
    void import("./index.js");
    return () => ended.abort();
  }, []);

  const ref = (chat: Chat | null): void => {
    own.current = chat;
    if (typeof chatRef === "function") chatRef(chat);
    else if (chatRef) (chatRef as { current: Chat | null }).current = chat;
  };
  return createElement("parley-chat", { ref, className, id });
}
