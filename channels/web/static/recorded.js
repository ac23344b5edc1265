// A server that plays recorded conversations: what the widget asks of it is answered here, nothing leaves the page.

const START = Date.parse("2026-03-02T09:00:00Z");
const SESSION = "session_recorded";

/** A conversation as facts of a log (with a `seq`), and as live events that come a little later. */
export class Recording {
  constructor({ time = Date.now() - 60_000 } = {}) {
    this.frames = [];
    this.time = time;
    this.seq = 0;
    this.runs = 0;
    this.messages = 0;
  }

  /** Add a fact, *after* so many milliseconds of the page. */
  fact(type, data, after = 0) {
    this.seq += 1;
    this.time += 40;
    this.frames.push({ seq: this.seq, type, run: this.run ?? null, time: this.time, data, after });
    return this;
  }

  /** Add a live event, which is no part of the log. */
  live(type, data, after) {
    this.frames.push({ type, run: this.run ?? null, time: this.time, data, after });
    return this;
  }

  /** Let the person say *text*, with *files*, and a run begin with it. */
  ask(text, files = []) {
    this.runs += 1;
    this.run = `run_${this.runs}`;
    this.asked = this.nextMessage();
    this.fact("message.received", { message: this.asked, parts: [{ type: "text", text }, ...files] });
    this.askedSeq = this.seq;
    return this.fact("run.queued", {}).fact("run.started", { epoch: 1 });
  }

  /** Begin a step, whose answer is `this.answer`. */
  step() {
    this.answer = this.nextMessage();
    const takes = this.askedSeq ? [this.askedSeq] : [];
    this.askedSeq = 0;
    return this.fact("step.started", { n: 1, attempt: 1, message: this.answer, takes });
  }

  /** Complete the answer with *parts*, or a text. */
  say(parts, more = {}) {
    const list = typeof parts === "string" ? [{ type: "text", text: parts }] : parts;
    return this.fact("message.completed", { message: this.answer, role: "assistant", parts: list, stop: "done", ...more });
  }

  /** Let a tool be called, and with *outcome* be done. */
  call(id, name, { outcome, text = "", title, done, given, started = true, ...more } = {}) {
    const parts = text ? [{ type: "text", text }] : [];
    this.fact("tool.requested", { call: id, name, step: 1, ...(title && { title }), ...(done && { title_done: done }), ...(given && { arguments: given }) });
    if (started) this.fact("tool.started", { call: id });
    if (outcome) this.fact("tool.completed", { call: id, outcome, parts, ...more });
    return this;
  }

  /** Let a step do nothing but call a tool. */
  use(id, name, options) {
    return this.step().say([{ type: "tool_call", call: id, name }], { stop: "tools" }).call(id, name, options);
  }

  show(id, call, kind, payload, text, title) {
    return this.fact("render.shown", { render: id, call, kind, payload, text, ...(title && { title }) });
  }

  /** End the run. */
  end(type = "run.completed", data = { stop_reason: "end_turn" }) {
    return this.fact(type, data);
  }

  /** A whole exchange. */
  exchange(question, answer) {
    return this.ask(question).step().say(answer).end();
  }

  /** Write *text* into the open answer, a word each *pace* milliseconds. */
  write(text, pace = 60) {
    let offset = 0;
    for (const text_ of text.match(/\S+\s*/g) ?? []) {
      this.live("text.delta", { message: this.answer, part: 0, epoch: 1, attempt: 1, offset, text: text_ }, offset ? pace : 0);
      offset += [...text_].length;
    }
    return this;
  }

  nextMessage() {
    this.messages += 1;
    return `msg_${this.messages}`;
  }
}

/** Return `fetch` for a page that shows *state*; its answers to what a person does there are recorded too. */
export function play({ recording, face = {}, answers = {}, cut = false, conversations = [], files = {} }) {
  const log = recording ?? new Recording();
  const listeners = new Set();
  let connections = 0;
  const publish = (from) => {
    const fresh = log.frames.slice(from);
    for (const listener of listeners) listener(fresh);
  };
  const routes = [
    ["GET", /\/v1\/web\/agent$/, () => json(200, faceOf(face))],
    ["GET", /\/v1\/web\/conversations/, () => json(200, { items: conversations, next_cursor: null })],
    ["GET", /\/v1\/files\/([^/?]+)/, (_body, [, id]) => (files[id] ? new Response(files[id].bytes, { headers: { "Content-Type": files[id].mime } }) : problem(404, "not_found", "There is no such file."))],
    ["GET", /\/v1\/sessions\/[^/]+\/events$/, (_body, _found, { signal, headers }) => {
      connections += 1;
      if (cut && connections > 1) throw new TypeError("The recorded server is away.");
      const last = Number(new Headers(headers).get("Last-Event-ID") ?? 0);
      return stream(log.frames.filter(({ seq }) => seq === undefined || seq > last), listeners, signal, cut);
    }],
    ["GET", /\/v1\/sessions\/[^/]+$/, () => json(200, { id: SESSION, replaced_by: null })],
    ["POST", /\/v1\/sessions$/, () => json(201, { id: SESSION })],
    ["POST", /\/v1\/sessions\/[^/]+\/messages$/, ({ text = "" }) => {
      const from = log.frames.length;
      log.ask(text).step().write("This page plays recordings: no model answers here. The agents of this server do, on the page that is called Try it.").say("This page plays recordings: no model answers here. The agents of this server do, on the page that is called **Try it**.").end();
      publish(from);
      return json(202, { message_id: log.asked, run_id: log.run, seq: log.frames[from].seq });
    }],
    ["POST", /\/v1\/approvals\/([^/]+)$/, ({ approved, reason }, [, approval]) => {
      const asked = log.frames.find(({ type, data }) => type === "approval.requested" && data.approval === approval);
      const { call } = asked.data;
      const from = log.frames.length;
      const by = { id: "visitor_you", kind: "visitor", name: "You" };
      log.fact("approval.decided", { approval, call, status: approved ? "approved" : "denied", by, ...(reason && { reason }) });
      log.fact("tool.completed", { call, outcome: approved ? "done" : "denied", parts: [] });
      log.step().say(approved ? "Done. You will get a confirmation by e-mail." : "All right, nothing was changed.").end();
      publish(from);
      return json(200, {});
    }],
    ["POST", /\/v1\/runs\/([^/]+)\/cancel$/, (_body, [, run]) => {
      const from = log.frames.length;
      log.run = run;
      log.say(log.frames.findLast(({ type }) => type === "text.delta") ? "It was stopped here." : [], { stop: "cancelled" }).end("run.cancelled", { reason: null });
      publish(from);
      return json(200, {});
    }],
  ];
  return async (address, init = {}) => {
    const { pathname } = new URL(String(address), location.href);
    const method = init.method ?? "GET";
    const own = answers[`${method} ${pathname.replace(/\/(session|run|approval)_[^/]+/g, "/*")}`];
    if (own) return problem(...own);
    const body = typeof init.body === "string" ? JSON.parse(init.body) : {};
    for (const [wanted, pattern, answer] of routes) {
      const found = wanted === method && pattern.exec(pathname);
      if (found) return answer(body, found, init);
    }
    return json(200, {});
  };
}

export { SESSION, START };

function faceOf(face) {
  const { build } = document.body.dataset;
  return { agent: { id: "agent_recorded", name: "assistant" }, title: null, greeting: null, avatar: null, prompts: [], files: null, overlap: "queue", anonymous: false, build, ...face };
}

function json(status, value) {
  return new Response(JSON.stringify(value), { status, headers: { "Content-Type": "application/json" } });
}

function problem(status, code, detail, wait) {
  const headers = { "Content-Type": "application/problem+json", ...(wait && { "Retry-After": String(wait) }) };
  return new Response(JSON.stringify({ type: "about:blank", title: code, status, code, detail }), { status, headers });
}

/** Return the stream of *frames*, and of what *listeners* are given, until *signal*; with *cut* it breaks after the first. */
function stream(frames, listeners, signal, cut) {
  const encoder = new TextEncoder();
  const body = new ReadableStream({
    start(controller) {
      let ended = false;
      let queue = Promise.resolve();
      const give = (all) => {
        queue = queue.then(async () => {
          for (const frame of all) {
            if (frame.after) await new Promise((resolve) => setTimeout(resolve, frame.after));
            if (ended) return;
            controller.enqueue(encoder.encode(text(frame)));
          }
        });
      };
      const end = () => {
        ended = true;
        listeners.delete(give);
        try {
          controller.error(new TypeError("The recorded stream has ended."));
        } catch {
          // it had ended before
        }
      };
      listeners.add(give);
      signal?.addEventListener("abort", end, { once: true });
      give(frames);
      if (cut) queue = queue.then(end);
    },
  });
  return new Response(body, { headers: { "Content-Type": "text/event-stream" } });
}

function text({ seq, type, run, time, data }) {
  const envelope = { session: SESSION, run, parent_run: null, time: new Date(time).toISOString() };
  return `${seq === undefined ? "" : `id: ${seq}\n`}event: ${type}\ndata: ${JSON.stringify({ ...data, ...envelope })}\n\n`;
}
