"""The page of a server with a token: it asks for the token and sends it. Its script runs in Node, with few elements."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from helpers.serving import Slow, running, service_of
from loopmt.serve.access import Access
from loopmt.serve.pages import contents

NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="Node is not on this machine")
TOKEN = "a-token-of-thirty-characters-x"

BROWSER = """
const vm = require("node:vm");
const [script, server, ...tokens] = process.argv.slice(1);
const made = {};
const kept = {};
let pending = 0;
function element() {
  const listeners = {};
  return {
    value: "", textContent: "", hidden: true, children: [], listeners,
    addEventListener: (kind, listener) => { listeners[kind] = listener; },
    replaceChildren(...children) { this.children = children; },
    append(...children) { this.children.push(...children); },
    setAttribute() {}, getAttribute() { return ""; }, focus() {},
  };
}
const global = element();
const context = vm.createContext({
  document: { getElementById: (id) => (made[id] ??= element()), createElement: element, querySelectorAll: () => [] },
  sessionStorage: { getItem: (key) => kept[key] ?? null, setItem: (key, value) => { kept[key] = value; } },
  fetch: async (address, options) => {
    pending += 1;
    const answer = await fetch(new URL(address, server), options);
    const text = await answer.text();
    setTimeout(() => { pending -= 1; }, 20);
    return { ok: answer.ok, status: answer.status, json: async () => JSON.parse(text) };
  },
  location: { hash: "" }, history: { replaceState() {} }, addEventListener: global.addEventListener, setTimeout() {},
});
vm.runInContext(script, context);
const settled = async () => {
  do await new Promise((resolve) => setTimeout(resolve, 50)); while (pending);
};
const seen = () => ({
  asks: !made["token-form"].hidden,
  run: made.run?.textContent ?? "",
  problem: made.problem.textContent,
  languages: made.languages?.children.length ?? 0,
});
(async () => {
  global.listeners.DOMContentLoaded();
  await settled();
  const found = [seen()];
  for (const token of tokens) {
    made.token = Object.assign(made.token ?? element(), { value: token });
    made["token-form"].listeners.submit({ preventDefault() {} });
    await settled();
    found.push(seen());
  }
  console.log(JSON.stringify({ found, kept }));
})();
"""


def test_the_page_asks_for_the_token(tiny_run: Path) -> None:
    with running(service_of(tiny_run, Slow()), Access("127.0.0.1", token=TOKEN)) as client:
        command = [str(NODE), "-e", BROWSER, contents("page.js"), str(client.base_url), "x" * 20, f" {TOKEN}\n"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    before, wrong, right = told["found"]
    assert before["asks"] and "token" in before["problem"]
    assert wrong["asks"] and "token is wrong" in wrong["problem"]
    assert right == {"asks": False, "run": "tiny · none", "problem": "", "languages": 3}
    assert told["kept"] == {"token": TOKEN}, "for this tab"


def test_a_page_without_a_token_does_not_ask(tiny_run: Path) -> None:
    with running(service_of(tiny_run, Slow())) as client:
        command = [str(NODE), "-e", BROWSER, contents("page.js"), str(client.base_url)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    (seen,) = json.loads(done.stdout)["found"]
    assert not seen["asks"] and seen["languages"] == 3
