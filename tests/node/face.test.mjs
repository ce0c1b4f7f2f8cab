// The face in jsdom, with views made by the real Python: what is drawn, what is sent, what keys do.
// Run: node --test tests/node

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { beforeEach, test } from "node:test";
import { fileURLToPath } from "node:url";
import { JSDOM } from "jsdom";

const ROOT = fileURLToPath(new URL("../../", import.meta.url));
const STATIC = `${ROOT}mxlab/explorers/static/`;

const dom = new JSDOM("<!doctype html><body></body>", { url: "http://localhost/" });
for (const name of ["document", "Event", "KeyboardEvent", "MutationObserver", "Node"]) {
  globalThis[name] = name === "document" ? dom.window.document : dom.window[name];
}

const STATES = [{}, { gpu: "h200", n: 8640 }, { n: 1, k: 1, tile: 5 }, { tp: 3 },
  { matrix: "torch" }, { matrix: "torch", n: 4128 }];
const python = `
import json, sys
from mxlab.explorers import answer, explorer
states = json.load(sys.stdin)
print(json.dumps({"spec": explorer("will_it_run").spec(),
  "answers": [json.loads(answer("will_it_run", json.dumps(s))) for s in states]}))`;
const { spec, answers } = JSON.parse(execFileSync(process.env.PYTHON ?? "python3",
  ["-c", python], { cwd: ROOT, input: JSON.stringify(STATES), maxBuffer: 1 << 26 }));

const face = (await import(`${STATIC}face.mjs`)).default;
const { csv } = await import(`${STATIC}takeaway.mjs`);
const css = readFileSync(`${STATIC}face.css`, "utf8");

/** What the face needs of an ipywidgets model. */
function makeModel(more = {}) {
  const values = { spec, css, answer: answers[0], notice: "", dead: false,
    ...answers[0].state, ...more };
  const listeners = new Map();
  return {
    values, sent: 0,
    get: (name) => values[name],
    set(name, value) {
      if (values[name] === value) return;
      values[name] = value;
      for (const listener of listeners.get(`change:${name}`) ?? []) listener();
    },
    on(event, listener) { listeners.set(event, [...(listeners.get(event) ?? []), listener]); },
    off(event, listener) {
      listeners.set(event, (listeners.get(event) ?? []).filter((f) => f !== listener));
    },
    save_changes() { this.sent += 1; },
    heard: () => [...listeners.values()].flat().length,
  };
}

let model, el, root, stop;
beforeEach(() => {
  document.body.replaceChildren();
  el = document.createElement("div");
  document.body.append(el);
  model = makeModel();
  stop = face.render({ model, el });
  root = el.firstChild.shadowRoot;
});

const labelled = (text) => [...root.querySelectorAll("label")].find((l) => l.textContent === text);
const field = (text) => root.getElementById(labelled(text).htmlFor);
const fire = (node, type, init = {}) =>
  node.dispatchEvent(new Event(type, { bubbles: true, composed: true, ...init }));
const press = (key, init = {}) => root.activeElement.dispatchEvent(
  new KeyboardEvent("keydown", { key, bubbles: true, composed: true, cancelable: true, ...init }));

test("anywidget's two functions are the default export, and nothing is called render", async () => {
  const module = await import(`${STATIC}face.mjs`);
  assert.deepEqual(Object.keys(module), ["default"]);
  assert.deepEqual(Object.keys(face).sort(), ["initialize", "render"]);
});

test("every control has a name, and shows the state", () => {
  assert.equal(root.querySelectorAll("label").length, spec.controls.length);
  for (const control of spec.controls) {
    assert.equal(field(control.label).value, String(answers[0].state[control.name]));
  }
  const ids = [...root.querySelectorAll("[id]")].map((node) => node.id);
  assert.equal(new Set(ids).size, ids.length, "no id twice");
  for (const range of root.querySelectorAll("input[type=range]")) {
    assert.ok(range.getAttribute("aria-label"));
  }
});

test("a control that does nothing at this state is not shown, nor a group of such", () => {
  const hidden = (text) => field(text).closest(".control").hidden;
  const groups = () => [...root.querySelectorAll("fieldset")].filter((set) => set.hidden)
    .map((set) => set.querySelector("legend").textContent);
  assert.equal(hidden("N"), false);
  assert.equal(hidden("EP"), true);
  assert.equal(hidden("config.json"), true);
  model.set("config", "Llama-3.1-8B");
  assert.equal(hidden("N"), true);
  assert.equal(hidden("EP"), false);
  assert.equal(hidden("config.json"), true);
  assert.deepEqual(groups(), ["Linear layer, before TP"]);
  model.set("config", "pasted");
  assert.equal(hidden("config.json"), false);
  model.set("config", "layer");
  assert.equal(hidden("N"), false);
  assert.deepEqual(groups(), []);
});

test("JupyterLab's shortcuts are kept off the host and every input", () => {
  const guarded = [el.firstChild, ...root.querySelectorAll(
    "input:not([type=file]), select, textarea, table.grid")];
  assert.ok(guarded.length > 15);
  for (const node of guarded) assert.equal(node.dataset.lmSuppressShortcuts, "true");
});

test("a control sends its value; a number that is out of range is not sent, then clamped", () => {
  const n = field("N");
  n.value = "8640";
  fire(n, "input");
  assert.equal(model.values.n, 8640);
  n.value = "99999999";
  fire(n, "input");
  assert.equal(model.values.n, 8640);
  fire(n, "change");
  assert.equal(model.values.n, 1048576);
  n.value = "";
  fire(n, "change");
  assert.equal(model.values.n, 1048576, "an empty box goes back to the last value");
  assert.equal(n.value, "1048576");
  const gpu = field("GPU");
  gpu.value = "h200";
  fire(gpu, "change");
  assert.equal(model.values.gpu, "h200");
  assert.ok(model.sent >= 3);
});

test("a value set elsewhere shows in number and slider", () => {
  model.set("tp", 7);
  assert.equal(field("TP").value, "7");
  assert.equal(root.querySelector("input[aria-label=TP]").value, "7");
});

test("the answer, every guard and every number is drawn", () => {
  for (const { view, state } of answers) {
    model.set("answer", { view, state });
    const text = root.querySelector(".panels").textContent;
    assert.equal(root.querySelector(".answer").textContent, `${view.sign} ${view.answer}`);
    assert.equal(root.querySelector(".answer").getAttribute("role"), "status");
    const panels = [...root.querySelectorAll(".panel")];
    assert.deepEqual(panels.map((p) => p.getAttribute("aria-label")),
      view.panels.map((p) => p.title));
    for (const panel of view.panels) {
      assert.ok(text.includes(panel.alt), `alt of ${panel.id}`);
      if (panel.kind === "verdicts") {
        const items = panel.runs.flatMap((run) => run.items);
        assert.ok(items.length > 20);
        const names = [...root.querySelectorAll(".item .name")].map((node) => node.textContent);
        assert.deepEqual(names, items.map((item) => item.name));
        for (const item of items) {
          assert.ok(text.includes(item.because) && text.includes(item.message));
        }
      }
    }
  }
});

test("a grid has one tab stop; arrows, Home, End, Page and Control keys move it", () => {
  const grid = root.querySelector("table[role=grid]");
  assert.ok(grid.getAttribute("aria-label"));
  assert.ok(root.getElementById(grid.getAttribute("aria-describedby")).textContent);
  const stops = () => [...grid.querySelectorAll("td[tabindex='0']")];
  assert.equal(stops().length, 1);
  stops()[0].focus();
  for (const [key, init, text] of [
    ["ArrowDown", {}, "16"], ["ArrowRight", {}, "17"], ["End", {}, "19"], ["Home", {}, "16"],
    ["PageDown", {}, "144"], ["PageUp", {}, "16"], ["ArrowUp", {}, "0"], ["ArrowUp", {}, "0"],
    ["End", { ctrlKey: true }, "511"], ["ArrowDown", {}, "511"], ["Home", { ctrlKey: true }, "0"],
  ]) {
    press(key, init);
    assert.equal(root.activeElement.textContent, text, key);
  }
  assert.equal(stops().length, 1);
});

test("focus in one grid marks the same scale in the other, and says it", () => {
  const [logical, physical] = root.querySelectorAll("table[role=grid]");
  logical.querySelector("td[tabindex='0']").focus();
  press("End");
  press("PageDown");
  const linked = physical.querySelectorAll("td.linked");
  assert.equal(linked.length, 1);
  assert.equal(linked[0].textContent, "8,3");
  const say = logical.closest("section").querySelector(".say").textContent;
  assert.equal(say, "Row 8, scale column 3: byte 131");
  assert.equal(physical.closest("section").querySelector(".say").textContent,
    "Byte 128 +3: scale of row, column 8,3");
});

test("a new view of the same shape keeps the focused cell; scroll and nodes survive", () => {
  root.querySelector("td[tabindex='0']").focus();
  press("ArrowDown");
  const cell = root.activeElement;
  const { view, state } = answers[1];
  model.set("answer", { view, state });
  assert.equal(root.activeElement, cell);
});

test("a title that says what is shown changes with it, as a heading and as a name", () => {
  model.set("answer", answers[4]);
  model.set("answer", answers[5]);
  const said = answers[5].view.panels.map((panel) => panel.title);
  const [before] = answers[4].view.panels.filter((panel) => panel.id === "matrix");
  assert.ok(said.some((title) => title.includes("4,128")) && !said.includes(before.title));
  const panels = [...root.querySelectorAll(".panel")];
  assert.deepEqual(panels.map((node) => node.querySelector(".panel-title").textContent), said);
  assert.deepEqual(panels.map((node) => node.getAttribute("aria-label")), said);
  const grids = panels.map((node) => node.querySelector("table[role=grid]"));
  grids.forEach((grid, i) => grid && assert.equal(grid.getAttribute("aria-label"), said[i]));
  assert.ok(grids.filter(Boolean).length >= 3);
});

test("folds stay open when the view changes, and the button opens and closes them all", () => {
  const folds = () => [...root.querySelectorAll("details")];
  folds()[0].open = true;
  model.set("answer", { view: answers[2].view, state: {} });
  assert.equal(folds()[0].open, true);
  const button = root.querySelector(".more");
  button.click();
  assert.ok(folds().every((fold) => fold.open));
  button.click();
  assert.ok(folds().every((fold) => !fold.open));
});

test("text from Python is text: no markup comes to life", () => {
  const evil = "<img src=x onerror=alert(1)>";
  const view = structuredClone(answers[0].view);
  view.answer = evil;
  view.panels[0].runs[0].items[0].because = evil;
  view.panels[1].rows[0][1] = evil;
  model.set("answer", { view, state: {} });
  assert.equal(root.querySelectorAll("img").length, 0);
  assert.ok(root.querySelector(".answer").textContent.includes(evil));
});

test("an error is a sentence and the last view stays", () => {
  const before = root.querySelectorAll(".item").length;
  model.set("answer", { error: "N is too large", state: {}, view: answers[0].view });
  assert.ok(root.textContent.includes("N is too large"));
  assert.equal(root.querySelectorAll(".item").length, before);
});

test("a dead kernel makes the controls inert and says so", () => {
  model.set("dead", true);
  model.set("notice", "gone");
  assert.equal(root.querySelector("form").inert, true);
  assert.equal(root.querySelector(".notice").hidden, false);
});

test("CSV has every cell once and no formula", () => {
  const view = structuredClone(answers[0].view);
  view.panels[0].runs[0].items[0].because = '=HYPERLINK("http://x")';
  const lines = csv(view).trimEnd().split("\r\n");
  assert.equal(lines[0], '"panel","row","column","value"');
  const bytes = lines.filter((line) => line.startsWith('"logical"')).map((line) =>
    Number(line.split(",").at(-1).replaceAll('"', "")));
  assert.equal(bytes.length, 512);
  assert.equal(new Set(bytes).size, 512);
  assert.ok(csv(view).includes(`"'=HYPERLINK(""http://x"")"`));
});

test("the end of a face leaves nothing behind", () => {
  stop();
  assert.equal(el.children.length, 0);
  assert.equal(model.heard(), 0);
});

test("initialize mounts the face where the saved output is, and shows the still again", async () => {
  document.body.innerHTML = '<div class="mxlab-explorer" id="mxlab-1">'
    + '<div class="mxlab-static">still</div></div>';
  const mount = document.getElementById("mxlab-1"), still = mount.firstElementChild;
  const clean = face.initialize({ model: makeModel({ mount: "mxlab-1" }) });
  assert.equal(mount.querySelectorAll(".mxlab-face").length, 1);
  assert.equal(still.hidden, true);
  const second = mount.cloneNode(false); // the same output in a second view
  document.body.append(second);
  await new Promise((resolve) => { setTimeout(resolve, 0); });
  assert.equal(second.querySelectorAll(".mxlab-face").length, 1);
  clean();
  assert.equal(document.querySelectorAll(".mxlab-face").length, 0);
  assert.equal(still.hidden, false);
});
