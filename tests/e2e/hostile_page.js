// Puts a conversation on the gallery's page in which every place that shows text holds a hostile string. Run by the tests alone.
async (hostile) => {
    const { play, Recording, SESSION } = await import("/widget-demo/recorded.js");
    let next = 0;
    const evil = () => hostile[next++ % hostile.length];
    const url = () => `https://ok.example/${encodeURIComponent(evil())}`;
    const log = new Recording();
    const file = () => ({ type: "file", file: "file_1", name: evil(), mime: "image/png", size: 12 });
    for (const each of hostile) log.exchange(each, each);
    log.ask(evil(), [file()]).step().say([
        { type: "reasoning", text: evil() },
        { type: "text", text: `${evil()} and more`, citations: [{ start: 0, end: 4, title: evil(), url: "javascript:alert(1)", text: evil(), source: evil() }, { title: evil(), url: url(), text: evil() }] },
        ...[1, 2, 3, 4, 5].map((n) => ({ type: "tool_call", call: `call_${n}`, name: evil(), arguments: { [evil()]: evil(), [evil()]: [{ [evil()]: evil() }] } })),
        file(),
    ], { stop: "tools" });
    for (const n of [1, 2, 3]) log.call(`call_${n}`, evil(), { outcome: ["done", "failed", "denied"][n - 1], title: evil(), done: evil(), text: evil(), given: { [evil()]: evil() } });
    log.call("call_4", evil(), { title: evil() }).fact("tool.progress", { call: "call_4", text: evil() });
    const columns = Array.from({ length: 6 }, (_, n) => ({ key: `k${n}`, label: evil(), format: evil() }));
    const rows = Array.from({ length: 30 }, () => Object.fromEntries(columns.map(({ key }) => [key, evil()])));
    log.show("render_1", "call_1", "table", { columns, rows }, evil(), evil());
    log.show("render_2", "call_1", "chart", { spec: {}, plain: { type: "bar", title: evil(), categories: [evil(), evil(), evil()], series: [{ name: evil(), values: [1, 2, 3] }, { name: evil(), values: [3, 2, 1] }], x: evil(), y: evil() } }, evil(), evil());
    log.show("render_3", "call_1", evil(), { [evil()]: evil() }, evil(), evil());
    const properties = Object.fromEntries(Array.from({ length: 6 }, (_, n) => [n ? `${evil()}` : "plain", [{ type: "string", title: evil(), description: evil() }, { type: "string", enum: [evil(), evil()], title: evil() }, { type: "boolean", title: evil() }, { type: "number", description: evil() }][n % 4]]));
    log.fact("approval.requested", { approval: "approval_1", call: "call_5", tool: evil(), title: evil(), detail: evil(), arguments: Object.fromEntries(Object.keys(properties).map((key) => [key, evil()])), responders: ["asker", evil()], quorum: 1, timeout_s: 600, edit: true, remember: true, may_decide: true, parameters: { type: "object", properties } });
    log.fact("tool.pending", { call: "call_5", on: "approval" });
    log.fact("message.completed", { message: "msg_person", role: "assistant", parts: [{ type: "text", text: evil() }], stop: "done", actor: { id: "x", kind: "user", name: evil() } });
    log.ask(evil()).step().say([{ type: "tool_call", call: "call_6", name: evil() }], { stop: "tools" }).call("call_6", evil(), { started: false });
    log.fact("approval.requested", { approval: "approval_2", call: "call_6", tool: evil(), title: evil(), arguments: { [evil()]: evil() }, responders: ["anyone"], quorum: 1, timeout_s: 600 });
    log.fact("approval.decided", { approval: "approval_2", call: "call_6", status: "denied", by: { id: evil(), kind: "user", name: evil() }, reason: evil() });
    log.show("render_4", "call_6", "suggestions", { items: [1, 2, 3, 4].map(() => ({ label: evil(), prompt: evil() })) }, evil());
    log.end("run.failed", { code: "provider_error", message: evil(), retryable: true });
    const at = new Date().toISOString();
    const conversations = Array.from({ length: 20 }, (_, n) => ({ id: n ? `session_${n}` : SESSION, title: evil(), status: "idle", created_at: at, last_activity_at: at, newest_seq: 3 }));
    const face = { title: evil(), greeting: evil(), avatar: evil(), prompts: Array.from({ length: 6 }, () => ({ label: evil(), prompt: evil(), icon: evil() })) };
    const words = (value) => (typeof value === "string" ? evil() : value && typeof value === "object" && !Array.isArray(value) ? Object.fromEntries(Object.entries(value).map(([key, each]) => [key, words(each)])) : value);
    const mount = async (options, hash, dressed) => {
        globalThis.fetch = play(options);
        for (const storage of [localStorage, sessionStorage]) hash ? storage.setItem("hostile", SESSION) : storage.removeItem("hostile");
        const chat = document.createElement("parley-chat");
        for (const [name, value] of [["token", "recorded"], ["storage-key", "hostile"]]) chat.setAttribute(name, value);
        if (dressed) {
            chat.strings = words(chat.strings);
            for (const name of ["heading", "greeting", "placeholder"]) chat.setAttribute(name, evil());
        }
        document.querySelector("#place").replaceChildren(chat);
        const until = async (look) => {
            for (let frames = 0; frames < 600; frames += 1) {
                if (look()) return true;
                await new Promise((resolve) => requestAnimationFrame(resolve));
            }
            return false;
        };
        await until(() => chat.shadowRoot.querySelector(hash ? ".entry" : ".greeting"));
        return { chat, until };
    };
    const found = { tags: new Set(), handlers: [], links: new Set(), missing: [], text: "" };
    const look = (chat) => {
        for (const each of chat.shadowRoot.querySelectorAll("*")) {
            found.tags.add(each.localName);
            for (const { name, value } of each.attributes) {
                if (name.startsWith("on") || name === "srcdoc" || name === "action" || name === "formaction") found.handlers.push(`${each.localName} ${name}`);
                if (["href", "src", "xlink:href", "poster", "data"].includes(name)) found.links.add(`${each.localName} ${value.split(":")[0]}`);
            }
        }
        found.text += chat.shadowRoot.textContent;
    };
    const fresh = await mount({ face, recording: new Recording() }, false, false);
    await fresh.until(() => fresh.chat.shadowRoot.textContent.length > 20);
    look(fresh.chat);
    for (const dressed of [false, true]) {
        const { chat, until } = await mount({ face, recording: log, conversations, answers: { "POST /v1/sessions/*/messages": [400, evil(), evil()] } }, true, dressed);
        const list = chat.shadowRoot.querySelector(".log");
        let count = 0;
        while (count !== (count = list.childElementCount)) {
            list.scrollTop = 0; // what is further up is drawn then
            await new Promise((resolve) => setTimeout(resolve, 60));
        }
        for (const drawn of ["figure.drawn table", "figure.drawn svg", ".asked"]) if (!(await until(() => chat.shadowRoot.querySelector(drawn)))) found.missing.push(drawn);
        for (const each of chat.shadowRoot.querySelectorAll("summary, [aria-expanded=false]")) each.click();
        chat.send(evil());
        await new Promise((resolve) => setTimeout(resolve, 300));
        look(chat);
    }
    const text = found.text;
    found.missing.push(...hostile.filter((each) => !text.includes(each.trim().split("\n")[0])));
    return { tags: [...found.tags], handlers: found.handlers, links: [...found.links], missing: found.missing, ran: globalThis.ran ?? null };
}
