// The control of a live question in jsdom, without any Python: what it sends, and when.
// Run: node --test tests/node

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { JSDOM } from "jsdom";

const STATIC = fileURLToPath(new URL("../../mxlab/explorers/static/", import.meta.url));
const dom = new JSDOM("<!doctype html><body></body>", { url: "http://localhost/" });
for (const name of ["Event", "KeyboardEvent", "MutationObserver", "Node"]) {
  globalThis[name] = dom.window[name];
}
globalThis.document = dom.window.document;

const face = (await import(`${STATIC}face.mjs`)).default;
const css = readFileSync(`${STATIC}face.css`, "utf8");
const CODE = "def f(a):\n    ...";

function made(lines = 1) {
  const spec = { name: "question:1.1", title: "Exercise 1.1", question: "?", bare: true, controls: [
    { kind: "checked", name: "yours", label: "Your answer", group: "", help: "A number.", limit: 99,
      lines, default: lines > 1 ? CODE : "", counts: "tries", private: true },
    { kind: "int", name: "tries", label: "Tries", group: "", help: "", default: 0, low: 0, high: 99,
      when: ["yours", []], private: true },
  ] };
  const values = { spec, css, notice: "", dead: false, yours: spec.controls[0].default, tries: 0 };
  const listeners = new Map(), sent = [];
  const model = {
    get: (name) => values[name],
    set(name, value) {
      values[name] = value;
      listeners.get(`change:${name}`)?.();
    },
    on: (event, listener) => listeners.set(event, listener),
    off() {},
    save_changes: () => sent.push([values.yours, values.tries]),
  };
  const el = document.createElement("div");
  document.body.replaceChildren(el);
  face.render({ model, el });
  const root = el.firstChild.shadowRoot;
  const said = (status, answer = "A.\nB.") => model.set("answer",
    { view: { status, sign: "!", answer, panels: [] } });
  const field = root.querySelector("input[type=text], textarea");
  const type = (text) => {
    field.value = text;
    field.dispatchEvent(new Event("input"));
  };
  const press = (key, more = {}) => field.dispatchEvent(new KeyboardEvent("keydown",
    { key, bubbles: true, cancelable: true, ...more }));
  return { root, model, sent, said, field, type, press, $: (what) => root.querySelector(what) };
}

test("an answer is sent when Check is pressed, and by Enter, and not before", () => {
  const { sent, type, press, $ } = made();
  type("10");
  assert.deepEqual(sent, []);
  $("button.check").click();
  assert.deepEqual(sent, [["10", 0]]);
  type("11");
  assert.equal(press("Enter"), false, "the form is not sent as well");
  assert.deepEqual(sent.at(-1), ["11", 0]);
  press("Enter", { isComposing: true });
  assert.equal(sent.length, 2, "Enter that ends a composed character is no check");
});

test("wrong tries are counted, one for each changed answer", () => {
  const { sent, type, said, $ } = made();
  const check = (text) => {
    type(text);
    $("button.check").click();
    return sent.at(-1)[1];
  };
  assert.equal(check("1"), 0);
  said("unknown");
  assert.equal(check("2"), 0, "what could not be read was no try");
  said("warns");
  assert.equal(check("2"), 0, "the same again is no try");
  said("warns");
  assert.equal(check("3"), 1);
  said("warns");
  assert.equal(check("4"), 2);
  said("passes");
  assert.equal(check("5"), 0, "a right answer starts anew");
  assert.equal(sent.length, 6);
});

test("the verdict is one live region, and nothing else is offered", () => {
  const { root, said, $ } = made();
  said("warns", "Not yet.\n<b>yours</b>: 7");
  const line = $("p.answer");
  assert.equal(line.getAttribute("role"), "status");
  assert.equal(line.textContent, "! Not yet.\n<b>yours</b>: 7");
  assert.equal($("b"), null);
  assert.deepEqual([...root.querySelectorAll("button")].map((b) => b.textContent), ["Check"]);
  assert.equal($("input[type=number]").closest(".control").hidden, true);
  const field = $("input[type=text]");
  assert.equal(root.getElementById(field.getAttribute("aria-describedby")).textContent, "A number.");
  assert.equal($(`label[for="${field.id}"]`).textContent, "Your answer");
});

test("code is checked by Ctrl+Enter; Enter goes on below, deeper after a colon; Tab is Tab", () => {
  const { sent, field, type, press, root } = made(7);
  assert.equal(field.value, CODE);
  type("def f(a):");
  field.setSelectionRange(9, 9);
  assert.equal(press("Enter"), false);
  assert.equal(field.value, "def f(a):\n    ");
  field.setRangeText("return a", 14, 14, "end");
  assert.equal(press("Enter"), false);
  assert.equal(field.value, "def f(a):\n    return a\n    ");
  type("x = 1");
  field.setSelectionRange(5, 5);
  assert.equal(press("Enter"), true, "the browser's own new line");
  assert.equal(press("Tab"), true, "Tab leaves the field");
  assert.deepEqual(sent, []);
  for (const how of [{ ctrlKey: true }, { metaKey: true }, { shiftKey: true }]) {
    type(`y = ${sent.length}`);
    assert.equal(press("Enter", how), false);
  }
  assert.deepEqual(sent.map(([text]) => text), ["y = 0", "y = 1", "y = 2"]);
  const again = [...root.querySelectorAll("button")].find((b) => b.textContent === "Start again");
  again.click();
  assert.equal(field.value, CODE);
  assert.equal(sent.length, 3);
});

test("what comes back does not overwrite what was typed since", () => {
  const { field, type, said, $, model } = made();
  type("7");
  $("button.check").click();
  type("78");
  said("warns");
  model.set("tries", 0);
  assert.equal(field.value, "78");
});
