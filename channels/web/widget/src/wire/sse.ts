/** Server-sent events over a fetch stream, by the letter of the HTML standard, for requests that carry a header. */

export interface ServerEvent {
  readonly id: string | null;
  readonly type: string;
  readonly data: string;
}

export interface SseParser {
  /** Take the next piece of text, cut anywhere. */
  feed(text: string): void;
}

/**
 * Return a parser that calls *emit* for every whole event; what has no closing blank line is dropped, as the standard says.
 *
 * `id` is the event's own: an event without one does not inherit it, because here it distinguishes facts from live events.
 */
export function sseParser(emit: (event: ServerEvent) => void): SseParser {
  let rest = "";
  let first = true;
  let skipFeed = false;
  let data: string[] = [];
  let type = "";
  let id: string | null = null;

  const end = (): void => {
    if (data.length) emit({ id, type: type || "message", data: data.join("\n") });
    data = [];
    type = "";
    id = null;
  };
  const line = (text: string): void => {
    if (text === "") return end();
    const colon = text.indexOf(":");
    const name = colon < 0 ? text : text.slice(0, colon);
    const value = colon < 0 ? "" : text.slice(text[colon + 1] === " " ? colon + 2 : colon + 1);
    if (name === "data") data.push(value);
    else if (name === "event") type = value;
    else if (name === "id" && !value.includes("\0")) id = value;
  };

  return {
    feed(text) {
      if (!text) return;
      const fresh = (first && text[0] === "\uFEFF") || (skipFeed && text[0] === "\n") ? text.slice(1) : text;
      first = false;
      skipFeed = text.endsWith("\r");
      const lines = (rest + fresh).split(/\r\n|\n|\r/);
      rest = lines.pop() ?? "";
      lines.forEach(line);
    },
  };
}

/** Read *body* to its end, calling *emit* per event and *alive* per chunk, comments included. */
export async function readEvents(
  body: ReadableStream<Uint8Array>,
  emit: (event: ServerEvent) => void,
  alive: () => void = () => undefined,
): Promise<void> {
  const parser = sseParser(emit);
  const reader = body.getReader();
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      alive();
      parser.feed(decoder.decode(value, { stream: true }));
    }
  } finally {
    reader.releaseLock();
  }
}
