// The states of the widget, each a recorded conversation: the real script folds and draws it.

import { Recording } from "./recorded.js";

const DAY = 86_400_000;
const log = (options) => new Recording(options);
const FACE = {
  title: "Nordlicht Travel",
  greeting: "Hello! Where would you like to go?",
  avatar: "N",
  prompts: [
    { label: "Find a night train", prompt: "Find me a night train from Hamburg to Vienna on Friday.", icon: "🚆" },
    { label: "Change my booking", prompt: "I need to change my booking.", icon: "📅" },
    { label: "Ask for a refund", prompt: "Can I have a refund for my last trip?", icon: "💶" },
    { label: "Luggage rules", prompt: "How much luggage may I take?", icon: "🧳" },
  ],
};
const MARKDOWN = `Here is a plan for **three days in Vienna**, at a calm pace.

### Day by day

1. **Friday**: arrive at 8:05, breakfast at a coffee house, then the *Belvedere*.
2. **Saturday**: the Naschmarkt, and a concert in the evening.
3. **Sunday**: a walk up the Kahlenberg.

| Day | What | Price |
| :-- | :-- | --: |
| Friday | Belvedere, upper and lower | 28.90 € |
| Saturday | Concert, standing room | 15.00 € |
| Sunday | Tram and bus | 5.80 € |

> Standing room is sold 80 minutes before the concert, at the side entrance.

The timetable is on [oebb.at](https://www.oebb.at/). Shall I book the train?`;
const CODE = `This reads the delays of a train, and waits politely between two tries:

\`\`\`python
import asyncio
import httpx

async def delays(train: str, tries: int = 3) -> list[int]:
    """Return the delays of *train* in minutes."""
    async with httpx.AsyncClient(timeout=10) as client:
        for n in range(tries):
            answer = await client.get(f"https://trains.example/{train}/delays")
            if answer.status_code != 429:
                return answer.raise_for_status().json()["minutes"]
            await asyncio.sleep(2 ** n)  # 1 s, 2 s, 4 s
    raise TimeoutError(train)
\`\`\`

Call it with \`await delays("NJ 491")\`.`;
const ARGUMENTS = { booking: "NL-20817", amount: 248.5, currency: "EUR", notify: true };
const PARAMETERS = {
  type: "object",
  properties: {
    booking: { type: "string", title: "Booking", description: "As it is on the ticket." },
    amount: { type: "number", title: "Amount", minimum: 0 },
    currency: { type: "string", title: "Currency", enum: ["EUR", "CHF", "CZK"] },
    notify: { type: "boolean", title: "Send a confirmation" },
  },
  required: ["booking", "amount"],
};
const FORM = {
  type: "object",
  properties: {
    date: { type: "string", format: "date", title: "Day of travel" },
    seats: { type: "integer", title: "Seats", minimum: 1, maximum: 8, default: 2 },
    berth: { type: "string", title: "Berth", enum: ["Seat", "Couchette", "Sleeper"], default: "Couchette" },
    quiet: { type: "boolean", title: "Quiet compartment" },
    note: { type: "string", title: "Anything that we should know?", description: "Only the crew reads it." },
  },
  required: ["date", "seats"],
};

const REFUND = { question: "Please refund my trip to Vienna.", text: "I can refund **248.50 €** for booking NL-20817. Please confirm it first.", tool: "refund", title: "Refund a booking", done: "Refunded a booking" };
const BOOKING = { question: "Book me a night train to Vienna.", text: "Gladly. I need a few things from you.", tool: "book", title: "Book a night train", done: "Booked a night train" };

function asked(more = {}, given = ARGUMENTS, { question, text, tool, title, done } = REFUND) {
  return log()
    .ask(question)
    .step()
    .say([{ type: "text", text }, { type: "tool_call", call: "call_1", name: tool, arguments: given }], { stop: "tools" })
    .call("call_1", tool, { title, done, given, started: false })
    .fact("approval.requested", { approval: "approval_1", call: "call_1", tool, title, arguments: given, responders: ["asker"], quorum: 1, timeout_s: 3600, edit: true, remember: true, may_decide: true, parameters: PARAMETERS, ...more })
    .fact("tool.pending", { call: "call_1", on: "approval" })
    .fact("run.waiting", { on: ["approval"] });
}

function decided(status, more = {}) {
  const made = asked().fact("approval.decided", { approval: "approval_1", call: "call_1", status, by: { id: "visitor_ada", kind: "visitor", name: "Ada" }, ...more });
  made.fact("run.resumed", { epoch: 2, cause: "approval" });
  made.fact("tool.completed", { call: "call_1", outcome: status === "approved" ? "done" : "denied", parts: [{ type: "text", text: "ok" }] });
  return made.step().say(status === "approved" ? "Done: 248.50 € are on their way to your card." : "All right, I have refunded nothing.").end();
}

const COLUMNS = [
  { key: "train", label: "Train" },
  { key: "leaves", label: "Leaves" },
  { key: "berths", label: "Berths", format: "integer" },
  { key: "price", label: "Price", format: "currency:EUR" },
];
const ROWS = [
  { train: "NJ 491", leaves: "20:21", berths: 14, price: 89.9 },
  { train: "NJ 40491", leaves: "21:02", berths: 3, price: 129 },
  { train: "EN 347", leaves: "22:48", berths: 31, price: 59.5 },
  { train: "D 1280", leaves: "23:30", berths: 0, price: 49 },
];
const CHART = {
  type: "bar",
  categories: ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat"],
  series: [{ name: "Hamburg", values: [42, 38, 45, 51, 78, 66] }, { name: "Vienna", values: [31, 35, 33, 40, 62, 71] }],
  x: "Day",
  y: "Passengers",
};
const TICKET = { type: "file", file: "file_1", name: "Ticket NL-20817.pdf", mime: "application/pdf", size: 182_044 };
const PHOTO = { type: "file", file: "file_2", name: "Platform.png", mime: "image/png", size: 51_900 };
/** A platform in the evening, as PNG. */
const PIXELS = "iVBORw0KGgoAAAANSUhEUgAAAPAAAACWCAIAAABvmpKCAAAEuklEQVR42u3Z249dcxjG8efPcSEuxIULQoSpjprRgx50VEcPetBRrbajBx3V0YN1XmvP6EFLiDhFiBAhRIgQIUQcQoRohAgR/0Fd7GRFWpkm8/72ylqvb/K5fG7eZz83v7V1zVAEuKFrhyLADV23IALc0PU3R4AbumFhBLihG4cjwA3dNBwBbmjBLRHghhYuigA3NHxrBLihRSMR4IZGRmPADY2OxoAbWnxbDLihJYtjwA0tWxIDbmj50hhwQyuWxoAbWrUsBtzQ6ttjwA2NLY8BN7RmRQy4obUrE8ANja9MADe0blUCuKH1dySAG9q4OgHc0KaxBHBDm8cSwA1tvTMB3NC2NQnghibuSgA3tH1tArihHeMp4IZ2jqeAG9p1dwq4od3rUsANTa5PATe0d0MKuKF9G1LADR3YmAJu6OA9KeCGpjalgBs6tDkF3NDhLRnghqa3ZIAbOrI1A9zQ0XszwA0d35YBbiiayAA3FE9kgBtK78sAN5RvzwA3VNyf4f/j/LkX5tb1A1XtyODeJXd8sY5eqpmdOXybx5r7unisZnfm8GreU/63bp2sEw/kcCnImvs6dLVO7srhT8A193XlcJ3encOZ4Gvu68TtOrMnhzMDGnQnbtfZPTk8GdCa+9p/vp6azOHGQNfc1/IG9PSDOdxoYNAtb0DP7M3hRgODbnkDenZfDh8aWHNfm0vQc/sL+NDYoNtcgp7fX8CHxgbd5hL04oECPjQ26DaXoJceKuBDY4Nucwl6+WABHxobdJtL0CtTBXxobNBtLkGvThXwobFBt7kEvfZwAR8aG3SbS9Drhwr40Nig21yC3nikgA+NDbrNJejNwwXcaGDNLW9Ab02XcKOBQbe8Ab09XcKNBgbd8gb0zqMlPBnomtt/vt49UsKZAa25E7frvaMlnBnQoDtxu94/VsKf4GvuyuH64FgJlwKuuUNX68PjJbwKsuZunayPHistrrp6DH3GJgdn3lNu7UVz0MdRacGOa8YmB2oea27zOXPQJ3FpwY5rxiabcckdd+KKOejTpLJgxzVjkwhCnyWVBTuuGZtEEPo8rSzYcc3YJILQF1llcf6byYtd8Ev/Z8Zf0tgkgtCXeWXBoGvGJhGEvioqCwZdMzaJIPR1UVkw6JqxSQShb8vKgkHXjE0iCH1XVRYMumZsEkHo+15lwaBrxiYRhH6YqSwYdM3YJILQj7M9CwZdMzaJIPTTbM+CPwhrxiYRhH5+vGfBjmvGJhGEzp3oWbDjmrFJBKFfTvYs2HHN2CSC0K+nehbsuGZsEkHot1M9C3ZcMzaJIPT76Z4FO64Zm0QQ+uOJngU7rhmbRBD680zPgh3XjE0iCP11tmfBjmvGJhGE/n5yxoId14xNIghddvnQBa64cuQCZMh0JcOgyTBoMmRaO2jqIOMpw6DJMGgyZFo7aOogw6OQDBkGTYYMXznIkOFRSIZBUxAZvnKQIcOjkAwZBk2GDF85yPAopCAyDJoMGb5ykCHDo5AMGQZNhq8cVEaGRyEZMgyaDBm+cpAhw6OQDIOmIDJ85SBDhkchGTIMmgwZvnKQ4VFIiWQYNBkyfOUgQ4ZHIRkyDJoMXznIkOFRSIYMgyZDZr6ZfwCXoqyFl+PITgAAAABJRU5ErkJggg==";
const bytes = (base64) => Uint8Array.from(atob(base64), (each) => each.charCodeAt(0));
const FILES = { file_2: { mime: "image/png", bytes: bytes(PIXELS) }, file_1: { mime: "application/pdf", bytes: bytes("JVBERi0xLjQK") } };
const CITED = "Night trains run daily between Hamburg and Vienna. Bicycles need a reservation, which costs 12 €.";
const HOUR = 3_600_000;
const talk = (id, title, ago, more = {}) => {
  const at = new Date(Date.now() - ago).toISOString();
  return { id, title, status: "idle", created_at: at, last_activity_at: at, newest_seq: 12, ...more };
};
const CONVERSATIONS = [
  talk("session_recorded", "Night train to Vienna", 60_000),
  talk("session_2", "Refund for a cancelled trip", 3 * HOUR),
  talk("session_3", "Luggage with skis", 26 * HOUR),
  talk("session_4", "Dog on board", 9 * 24 * HOUR),
];

/** Name, group, and what is played; *make* is called each time. */
export const STATES = [
  ["start", "Start", "Start screen", () => ({ face: FACE, fresh: true })],
  ["bare", "Start", "Without settings", () => ({ fresh: true })],
  ["answer", "Answers", "Text, list, table", () => ({ face: FACE, recording: log().exchange("Plan three days in Vienna for me.", MARKDOWN) })],
  ["streaming", "Answers", "Streaming", () => ({ face: FACE, recording: log().ask("Plan three days in Vienna for me.").step().write(MARKDOWN, 90) })],
  ["thinking", "Answers", "Thinking", () => ({ face: FACE, recording: log().exchange("Hello!", "Hello! How can I help?").ask("Which train is the quietest?").step() })],
  ["code", "Answers", "Code", () => ({ face: FACE, recording: log().exchange("How do I read the delays of a train?", CODE) })],
  ["citations", "Answers", "Sources", () => ({ face: FACE, recording: log().ask("Can I take my bicycle?").step().say([{ type: "text", text: CITED, citations: [{ start: 0, end: 50, title: "Timetable 2026", url: "https://trains.example/timetable" }, { start: 51, end: 97, title: "Bicycles on board", url: "https://trains.example/bicycles" }] }]).end() })],
  ["suggestions", "Answers", "Suggestions", () => ({ face: FACE, recording: log().ask("Is there a night train on Friday?").use("call_1", "suggest", { outcome: "done" }).show("render_1", "call_1", "suggestions", { items: [{ label: "Book two berths", prompt: "Book two berths on NJ 491." }, { label: "Show other days", prompt: "Which other days are there?" }, { label: "Can I take a dog?", prompt: "Can I take a dog?" }] }, "Book two berths · Show other days · Can I take a dog?").step().say("Yes, **NJ 491** leaves at 20:21, with 14 berths free.").end() })],
  ["person", "Answers", "A person answers", () => ({ face: FACE, recording: log().exchange("May I speak to a person?", "Of course, I have called somebody.").fact("message.completed", { message: "msg_meg", role: "assistant", parts: [{ type: "text", text: "Hello, this is Meg. I have your booking in front of me." }], stop: "done", actor: { id: "meg", kind: "user", name: "Meg" } }) })],
  ["days", "Answers", "Several days", () => {
    const made = log({ time: Date.now() - 40 * DAY }).exchange("Is there a train to Prague?", "Yes, every two hours.");
    made.time = Date.now() - DAY;
    made.exchange("And a night train to Vienna?", "Every evening, at 20:21.");
    made.time = Date.now() - 60_000;
    return { face: FACE, recording: made.exchange("With a sleeper?", "Yes: 14 berths are free today.") };
  }],
  ["files", "Answers", "Files and images", () => ({ face: { ...FACE, files: { max_bytes: 10_000_000, max_count: 5, accept: ["image/png", "image/jpeg", "application/pdf"] } }, files: FILES, recording: log().ask("Is this my platform?", [PHOTO]).step().say([{ type: "text", text: "Yes, it is platform 8. Here is your ticket once more." }, TICKET]).end() })],
  ["running", "Tools", "A tool at work", () => ({ face: FACE, recording: log().ask("Which trains go on Friday?").step().say([{ type: "text", text: "Let me look." }, { type: "tool_call", call: "call_1", name: "find_trains" }], { stop: "tools" }).call("call_1", "find_trains", { title: "Looking up trains", done: "Looked up trains" }).fact("tool.progress", { call: "call_1", text: "3 of 5 days" }) })],
  ["folded", "Tools", "Several tools", () => ({ face: FACE, recording: log().ask("Which trains go on Friday?").step().say([{ type: "tool_call", call: "call_1", name: "find_trains" }, { type: "tool_call", call: "call_2", name: "read_prices" }, { type: "tool_call", call: "call_3", name: "read_berths" }], { stop: "tools" }).call("call_1", "find_trains", { outcome: "done", title: "Looking up trains", done: "Looked up trains", given: { day: "2026-03-06", from: "Hamburg", to: "Vienna" }, text: '{"trains": ["NJ 491", "EN 347"]}' }).call("call_2", "read_prices", { outcome: "done", title: "Reading prices", done: "Read the prices", text: "89.90 €" }).call("call_3", "read_berths", { outcome: "done", title: "Counting berths", done: "Counted berths", text: "14" }).step().say("**NJ 491** has 14 berths, from 89.90 €.").end() })],
  ["failed", "Tools", "A tool that failed", () => ({ face: FACE, recording: log().ask("How late is NJ 491?").step().say([{ type: "tool_call", call: "call_1", name: "read_delay" }], { stop: "tools" }).call("call_1", "read_delay", { outcome: "failed", title: "Reading delays", done: "Read the delays", text: "The timetable did not answer within 10 s." }).step().say("I could not read the delays just now. Usually it is on time.").end() })],
  ["table", "Tools", "Table", () => ({ face: FACE, recording: log().ask("Which night trains are there on Friday?").use("call_1", "find_trains", { outcome: "done", title: "Looking up trains", done: "Looked up trains" }).show("render_1", "call_1", "table", { columns: COLUMNS, rows: ROWS }, "4 trains", "Night trains on Friday").step().say("The quickest is **NJ 491**, and the cheapest D 1280, which has seats alone.").end() })],
  ["chart", "Tools", "Chart", () => ({ face: FACE, recording: log().ask("When is it full?").use("call_1", "count", { outcome: "done", title: "Counting passengers", done: "Counted passengers" }).show("render_1", "call_1", "chart", { spec: {}, plain: CHART }, "Passengers by day", "Passengers by day").step().say("Friday and Saturday are the busiest.").end() })],
  ["approval", "Approvals", "May I?", () => ({ face: FACE, recording: asked() })],
  ["waiting", "Approvals", "Another decides", () => ({ face: FACE, recording: asked({ responders: ["slack:group:S0123"], may_decide: false, arguments: undefined, parameters: undefined }) })],
  ["approved", "Approvals", "Approved", () => ({ face: FACE, recording: decided("approved") })],
  ["denied", "Approvals", "Denied", () => ({ face: FACE, recording: decided("denied", { reason: "I would rather have a voucher." }) })],
  ["form", "Approvals", "A form", () => ({ face: FACE, recording: asked({ edit: true, remember: false, form: FORM, parameters: FORM }, { seats: 2, berth: "Couchette", quiet: false }, BOOKING) })],
  ["error", "Errors", "The run failed", () => ({ face: FACE, recording: log().ask("Plan three days in Vienna.").step().end("run.failed", { code: "provider_error", message: "The model did not answer.", retryable: true }) })],
  ["cut", "Errors", "Cut at its length", () => ({ face: FACE, recording: log().ask("Tell me all about night trains.").step().say("The first night train ran in 1838, from London to Lancashire, and", { stop: "length" }).end() })],
  ["refused", "Errors", "Declined", () => ({ face: FACE, recording: log().ask("Tell me who sits in berth 12.").step().say([], { stop: "refused" }).end("run.completed", { stop_reason: "refused" }) })],
  ["reconnecting", "Errors", "Reconnecting", () => ({ face: FACE, cut: true, recording: log().exchange("Is there a night train?", "Yes, every evening at 20:21.") })],
  ["limited", "Errors", "Too many messages", () => ({ face: FACE, recording: log().exchange("Hello!", "Hello! How can I help?"), send: "And one more thing", answers: { "POST /v1/sessions/*/messages": [429, "rate_limited", "You have sent 10 messages within a minute. Please wait 40 seconds.", 40] } })],
  ["closed", "Errors", "Closed", () => ({ face: FACE, recording: log().exchange("Thank you!", "You are welcome. Have a good trip!").fact("session.closed", { reason: "closed" }), send: "One more question", answers: { "POST /v1/sessions/*/messages": [409, "session_closed", "This session is closed."] } })],
  ["broken", "Errors", "No access", () => ({ face: FACE, recording: log(), answers: { "GET /v1/sessions/*/events": [401, "unauthorized", "The token is not valid."] } })],
  ["list", "Conversations", "Conversations", () => ({ face: FACE, conversations: CONVERSATIONS, recording: log().exchange("Is there a night train to Vienna?", "Yes, every evening at 20:21."), list: true })],
];
