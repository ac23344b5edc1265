// The demo page: switch between agents in place, and follow what `parley dev` has loaded and what it could not.

const EVERY = 2000; // milliseconds between two looks, while the page is seen
const chat = document.querySelector("parley-chat");
const switcher = document.querySelector("select");
const model = document.querySelector("[data-parley-model]");
const states = document.querySelector("nav a[href]");
const problems = document.querySelector(".problems");

/** Let the agent that is selected answer; the address follows, so that a reload shows the same one. */
function show() {
  const name = switcher.value;
  const { notice, heading } = switcher.selectedOptions[0].dataset;
  const query = `?${new URLSearchParams({ agent: name })}`;
  chat.setAttribute("agent", name);
  chat.setAttribute("token-url", `/widget-demo/token${query}`);
  head(heading);
  model.textContent = notice;
  states.href = `/widget-demo?${new URLSearchParams({ show: "states", agent: name })}`;
  history.replaceState(null, "", query);
}

/** Put *heading* above the conversation; without one it is the agent's own title. */
function head(heading) {
  if (heading) chat.setAttribute("heading", heading);
  else chat.removeAttribute("heading");
}

/** List *agents*; a page that lacks its agent begins again once the list has changed. */
function list(agents) {
  const listed = [...switcher.options].map((each) => [each.value, each.dataset.notice, each.dataset.heading ?? null]);
  if (JSON.stringify(listed) === JSON.stringify(agents.map(({ name, notice, heading }) => [name, notice, heading ?? null]))) return;
  const current = chat?.getAttribute("agent");
  if (!agents.some(({ name }) => name === current)) {
    location.reload();
    return;
  }
  const options = agents.map(({ name, notice, heading }) => {
    const option = new Option(name, name);
    option.dataset.notice = notice;
    if (heading) option.dataset.heading = heading;
    return option;
  });
  switcher.replaceChildren(...options);
  switcher.value = current;
  switcher.parentElement.hidden = agents.length < 2;
  head(switcher.selectedOptions[0].dataset.heading);
  model.textContent = switcher.selectedOptions[0].dataset.notice;
}

/** Show *found*, or nothing when all is well again. */
function report(found) {
  const items = found.map((text) => Object.assign(document.createElement("li"), { textContent: text }));
  const kept = problems.querySelector("ul");
  if (items.length !== kept.children.length || items.some((each, n) => each.textContent !== kept.children[n].textContent)) {
    kept.replaceChildren(...items);
  }
  problems.hidden = !items.length;
}

/** Look once; a server that restarts is asked again later. */
async function look() {
  const answer = await fetch("/widget-demo/status", { cache: "no-store" }).catch(() => null);
  if (!answer?.ok) return;
  const status = await answer.json();
  report(status.problems);
  list(status.agents);
}

async function follow() {
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, EVERY));
    if (!document.hidden) await look();
  }
}

switcher.addEventListener("change", show);
if (document.body.dataset.watch === "on") void follow();
