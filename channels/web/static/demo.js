// The demo page: switch between agents in place, and follow what `parley dev` has loaded and what it could not.

const EVERY = 2000; // milliseconds between two looks, while the page is seen
const chat = document.querySelector("parley-chat");
const switcher = document.querySelector("select");
const model = document.querySelector("[data-parley-model]");
const problems = document.querySelector(".problems");

/** Let the agent that is selected answer; the address follows, so that a reload shows the same one. */
function show() {
  const { value: name, selectedOptions } = switcher;
  const query = `?${new URLSearchParams({ agent: name })}`;
  chat.setAttribute("agent", name);
  chat.setAttribute("token-url", `/widget-demo/token${query}`);
  chat.setAttribute("heading", name.charAt(0).toUpperCase() + name.slice(1));
  model.textContent = selectedOptions[0].dataset.notice;
  history.replaceState(null, "", query);
}

/** List *agents*; a page that lacks its agent begins again once the list has changed. */
function list(agents) {
  const listed = [...switcher.options].map((each) => [each.value, each.dataset.notice]);
  if (JSON.stringify(listed) === JSON.stringify(agents.map(({ name, notice }) => [name, notice]))) return;
  const current = chat?.getAttribute("agent");
  if (!agents.some(({ name }) => name === current)) {
    location.reload();
    return;
  }
  const options = agents.map(({ name, notice }) => {
    const option = new Option(name, name);
    option.dataset.notice = notice;
    return option;
  });
  switcher.replaceChildren(...options);
  switcher.value = current;
  switcher.parentElement.hidden = agents.length < 2;
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
