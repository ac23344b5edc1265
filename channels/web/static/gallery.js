// The page of states, theme and snippet: a recorded server, the real widget in each of its states, and the lines that embed it.

import { play, SESSION } from "./recorded.js";
import { STATES } from "./states.js";

const KEY = "parley-gallery";
const DEFAULTS = { scheme: "", lang: "", accent: "#4f46e5", radius: "16", size: "15", density: "1", launcher: "" };
const find = (id) => document.getElementById(id);
const [place, states, select, theme, said] = ["place", "states", "state", "theme", "said"].map(find);
const { build, integrity, agent } = document.body.dataset;
let current = "";

/** Return an element *tag* with *properties* and *children*. */
function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

/** List the states, by their groups. */
function list() {
  for (const group of new Set(STATES.map(([, each]) => each))) {
    const its = STATES.filter(([, each]) => each === group);
    states.append(make("h3", { textContent: group }), ...its.map(([name, , title]) => make("a", { href: `#${name}`, textContent: title })));
    select.append(make("optgroup", { label: group }, ...its.map(([name, , title]) => new Option(title, name))));
  }
}

/** Return what the theme's fields say. */
function chosen() {
  return Object.fromEntries(new FormData(theme));
}

/** Return the custom properties that differ from the widget's own, by name. */
function properties({ accent, radius, size, density }) {
  return Object.entries({
    "--parley-accent": accent !== DEFAULTS.accent && accent,
    "--parley-accent-text": accent !== DEFAULTS.accent && textOn(accent),
    "--parley-radius": radius !== DEFAULTS.radius && `${radius}px`,
    "--parley-size": size !== DEFAULTS.size && `${size}px`,
    "--parley-density": density !== DEFAULTS.density && density,
  }).filter(([, value]) => value);
}

/** Return black or white, whichever is read better on *colour*, as WCAG computes contrast. */
function textOn(colour) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) / 255).map((each) => (each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4));
  const light = 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  return 1.05 / (light + 0.05) >= (light + 0.05) / 0.05 ? "#ffffff" : "#000000";
}

/** Put the widget on the page, in the state *name*. */
function show(name) {
  const [found, , title, made] = STATES.find(([each]) => each === name) ?? STATES[0];
  current = found;
  document.title = `${title} · Parley`;
  for (const link of states.querySelectorAll("a")) link.toggleAttribute("aria-current", link.hash === `#${found}`);
  select.value = found;
  const state = made();
  globalThis.fetch = play(state);
  for (const storage of [localStorage, sessionStorage]) {
    for (const name of Object.keys(storage).filter((each) => each.includes(KEY))) storage.removeItem(name); // drafts, and what was read
    if (state.fresh) storage.removeItem(KEY);
    else storage.setItem(KEY, SESSION);
  }
  const chat = document.createElement("parley-chat");
  for (const [attribute, value] of Object.entries({ token: "recorded", "storage-key": KEY, agent })) chat.setAttribute(attribute, value);
  if (!state.face?.title) chat.setAttribute("heading", "Assistant");
  const { launcher } = chosen();
  if (launcher) for (const [attribute, value] of [["launcher", ""], ["position", launcher]]) chat.setAttribute(attribute, value);
  dress(chat);
  place.replaceChildren(chat, ...(launcher ? [cornered()] : []));
  if (state.send) void send(chat, state.send);
  if (state.list) void press(chat, "header [aria-haspopup]");
}

/** Return what stands in the place of a widget that is a bubble. */
function cornered() {
  const note = document.createElement("p");
  note.className = "cornered hint";
  note.textContent = "The bubble is in the corner of this page.";
  return note;
}

/** Let *chat* send *text*, once its conversation is there. */
async function send(chat, text) {
  await customElements.whenDefined("parley-chat");
  await until(() => chat.shadowRoot?.querySelector(".entry"));
  if (chat.isConnected) chat.send(text);
}

async function press(chat, selector) {
  const button = await until(() => chat.shadowRoot?.querySelector(selector));
  if (chat.isConnected) button?.click();
}

/** Return what *look* gives, once it gives something; null after five seconds. */
async function until(look) {
  for (let frames = 0; frames < 300; frames += 1) {
    const found = look();
    if (found) return found;
    await new Promise((resolve) => requestAnimationFrame(resolve));
  }
  return null;
}

/** Let *chat* look as the theme's fields say. */
function dress(chat) {
  const { scheme, lang } = chosen();
  for (const [attribute, value] of [["theme", scheme], ["lang", lang], ["dir", lang === "ar" ? "rtl" : ""]]) {
    if (value) chat.setAttribute(attribute, value);
    else chat.removeAttribute(attribute);
  }
  chat.removeAttribute("style");
  for (const [name, value] of properties(chosen())) chat.style.setProperty(name, value);
}

/** Write the lines that embed the widget so. */
function write() {
  const { scheme, lang, launcher } = chosen();
  const attributes = Object.entries({ server: location.origin, agent, "token-url": "/parley-token", theme: scheme, lang, ...(launcher && { launcher: true, position: launcher }) });
  const written = attributes.filter(([, value]) => value).map(([name, value]) => (value === true ? name : `${name}="${escaped(value)}"`));
  const address = `${location.origin}/widget/${build}/parley-chat.js`;
  const script = `<script type="module" crossorigin="anonymous"\n  src="${address}"\n  integrity="${integrity}"></script>`;
  find("markup").textContent = `${script}\n<parley-chat\n  ${written.join("\n  ")}></parley-chat>`;
  const rules = properties(chosen()).map(([name, value]) => `  ${name}: ${value};`);
  find("rules").textContent = rules.length ? `parley-chat {\n${rules.join("\n")}\n}` : "";
}

function escaped(text) {
  return text.replaceAll("&", "&amp;").replaceAll('"', "&quot;").replaceAll("<", "&lt;");
}

function update() {
  const chat = place.querySelector("parley-chat");
  if (chat) dress(chat);
  write();
}

list();
theme.addEventListener("input", update);
theme.addEventListener("change", ({ target }) => ["launcher", "lang"].includes(target.name) && show(current));
theme.addEventListener("reset", () => setTimeout(() => (show(current), write())));
select.addEventListener("change", () => (location.hash = select.value));
addEventListener("hashchange", () => show(location.hash.slice(1)));
find("again").addEventListener("click", () => show(current));
for (const button of document.querySelectorAll(".switch [data-width]")) {
  button.addEventListener("click", () => {
    place.dataset.width = button.dataset.width;
    for (const each of document.querySelectorAll(".switch [data-width]")) each.setAttribute("aria-pressed", String(each === button));
  });
}
for (const button of document.querySelectorAll("[data-copies]")) {
  button.addEventListener("click", async () => {
    const text = find(button.dataset.copies).textContent;
    said.textContent = await navigator.clipboard.writeText(text).then(() => "Copied.", () => "The browser does not allow to copy here.");
  });
}
write();
await import("/widget/parley-chat.js");
show(location.hash.slice(1));
