import assert from "node:assert/strict";
import { test } from "node:test";
import { readEvents, sseParser, type ServerEvent } from "../src/wire/sse.js";

const STREAM = [
  "\uFEFFid: 1\r\nevent: run.queued\r\ndata: {}\r\n\r\n",
  ": a comment\n\n",
  "event: text.delta\rdata: {\"text\":\rdata:  \"👋🏽 é\"}\r\r",
  "data\n\n",
  "id: 2\nevent:tight\ndata:a: b\nretry: 10\nunknown: x\n\n",
  "event: nothing to say\n\n",
  "id: no\0good\ndata: y\n\n",
  "data: never ended\n",
].join("");

const EVENTS: ServerEvent[] = [
  { id: "1", type: "run.queued", data: "{}" },
  { id: null, type: "text.delta", data: '{"text":\n "👋🏽 é"}' },
  { id: null, type: "message", data: "" },
  { id: "2", type: "tight", data: "a: b" },
  { id: null, type: "message", data: "y" },
];

function streamOf(bytes: Uint8Array, size: number): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      for (let at = 0; at < bytes.length; at += size) controller.enqueue(bytes.slice(at, at + size));
      controller.close();
    },
  });
}

for (const size of [1, 2, 7, 4096]) {
  test(`a stream in chunks of ${size} bytes gives the same events`, async () => {
    const events: ServerEvent[] = [];
    let chunks = 0;
    const bytes = new TextEncoder().encode(STREAM);
    await readEvents(streamOf(bytes, size), (event) => events.push(event), () => (chunks += 1));
    assert.deepEqual(events, EVENTS);
    assert.equal(chunks, Math.ceil(bytes.length / size));
  });
}

test("an event is given out with its blank line, not with the byte after it", () => {
  for (const end of ["\n", "\r", "\r\n"]) {
    const events: ServerEvent[] = [];
    sseParser((event) => events.push(event)).feed(`data: x${end}${end}`);
    assert.equal(events.length, 1, JSON.stringify(end));
  }
});
