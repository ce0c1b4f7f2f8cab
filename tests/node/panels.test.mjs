// Drawings, cells that set a control, blocks of numbers, files: drawn in jsdom, without any Python.
// Run: node --test tests/node

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { beforeEach, test } from "node:test";
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

const head = (kind, id) => ({ kind, id, title: `Panel ${id}`, alt: `What ${id} shows.` });
const drawing = { ...head("drawing", "d"), wide: true, width: 100, height: 60, legend: [[0, "a box"]],
  shapes: [
    ["box", [0, 0, 40, 20], 0, "", "start", 0, 0, 7, "The box"],
    ["line", [0, 50, 100, 50], -2],
    ["area", [0, 50, 50, 20, 100, 50], 4, "", "start", 1],
    ["dot", [50, 30, 3], 2],
    ["text", [50, 45], -1, "<b>bold</b>", "middle"],
  ] };
const grid = { ...head("grid", "g"), corner: "bit", columns: ["7", "6"], rows: ["code"],
  text: [["0", "1"]], tone: [[1, 0]], key: [[7, 8]], legend: ["a", "b"], tones: [4, 2],
  say: "Bit {column}: {text}", nothing: "", sample: [], sets: "code", values: [[254, null]],
  chosen: [[0, 1]], large: true };
const spec = { name: "e", title: "E", question: "?", controls: [
  { kind: "numbers", name: "v", label: "Values", group: "", help: "Drag.", default: "1,2,3", count: 3,
    presets: [["tiny", "0.1,0.2,0.3"]], limit: 20, file: "numbers" },
  { kind: "text", name: "line", label: "Line", group: "", help: "", default: "x", limit: 9, lines: 1,
    file: "" },
  { kind: "text", name: "log", label: "Log", group: "", help: "", default: "", limit: 5, lines: 3,
    file: "a log" },
] };

let sent, el, root;
beforeEach(() => {
  sent = [];
  el = document.createElement("div");
  document.body.replaceChildren(el);
  const values = { spec, css, notice: "", dead: false, v: "1,2,3", line: "x", log: "",
    answer: { state: {}, view: { status: "passes", sign: "+", answer: "Yes.",
      panels: [drawing, grid], cli: "", python: "" } } };
  face.render({ el, model: {
    get: (name) => values[name],
    set: (name, value) => { sent.push([name, value]); },
    on() {}, off() {}, save_changes() {},
  } });
  root = el.firstChild.shadowRoot;
});

const $ = (selector) => root.querySelector(selector);
const key = (node, name) => node.dispatchEvent(new KeyboardEvent("keydown",
  { key: name, bubbles: true, composed: true, cancelable: true }));

test("every shape is one element, and a text stays text", () => {
  const sheet = $("svg.sheet");
  assert.deepEqual([...sheet.children].map((node) => node.tagName),
    ["rect", "path", "path", "circle", "text"]);
  assert.equal(sheet.getAttribute("aria-label"), "What d shows.");
  assert.equal(sheet.lastChild.textContent, "<b>bold</b>");
  assert.equal(sheet.querySelector("b"), null);
  assert.equal(sheet.children[1].getAttribute("class"), "line dim");
});

test("a shape and a cell with one key light up together, by pointer and by focus", () => {
  const box = $("svg rect"), cell = $("td[role=gridcell]");
  box.dispatchEvent(new Event("pointerover", { bubbles: true }));
  assert.ok(cell.classList.contains("linked"));
  assert.equal($(".drawing .say").textContent, "The box");
  const [, other] = root.querySelectorAll("td[role=gridcell]");
  other.focus();
  assert.ok(!box.classList.contains("linked"));
  cell.focus();
  assert.ok(box.classList.contains("linked"));
});

test("click, Enter and Space set a control; a cell without a value sets nothing", () => {
  const [first, second] = root.querySelectorAll("td[role=gridcell]");
  first.click();
  key(first, "Enter");
  key(first, " ");
  assert.deepEqual(sent, [["code", 254], ["code", 254], ["code", 254]]);
  second.click();
  key(second, "Enter");
  assert.equal(sent.length, 3);
  assert.equal(second.ariaSelected ?? second.getAttribute("aria-selected"), "true");
  assert.ok(first.classList.contains("able") && !second.classList.contains("able"));
});

test("a wide panel says so to the style sheet, another does not", () => {
  assert.ok($(".panel.drawing.wide"));
  assert.ok($(".panel.grid") && !$(".panel.grid.wide"));
});

test("a cell sets several controls, a word for each", () => {
  grid.sets = "backend gpu";
  grid.values = [["deep_gemm b200", null]];
  const [first, second] = root.querySelectorAll("td[role=gridcell]");
  first.click();
  second.click();
  assert.deepEqual(sent, [["backend", "deep_gemm"], ["gpu", "b200"]]);
  grid.sets = "code";
  grid.values = [[254, null]];
});

test("a cell has the colour of its word in the legend", () => {
  const swatches = [...root.querySelectorAll(".panel.grid .swatch")].map((s) => s.className);
  assert.deepEqual(swatches, ["swatch t4", "swatch t2"]);
  const [first, second] = root.querySelectorAll("td[role=gridcell]");
  assert.ok(first.classList.contains("t2") && second.classList.contains("t4"));
  assert.ok($("table.grid").classList.contains("large"));
});

test("a second face of one kind is a landmark of another name, and panels are none", () => {
  const name = $(".explorer").getAttribute("aria-label");
  assert.match(name, /^E( \d+)?$/);
  const other = document.createElement("div");
  face.render({ el: other, model: { get: (what) => ({ spec, css, v: "1,2,3" })[what],
    set() {}, on() {}, off() {}, save_changes() {} } });
  const second = other.firstChild.shadowRoot.querySelector(".explorer");
  assert.notEqual(second.getAttribute("aria-label"), name);
  for (const panel of root.querySelectorAll(".panel")) assert.equal(panel.getAttribute("role"), "group");
});

test("a drawing that fits takes no tab stop", () => {
  assert.equal($(".paper").hasAttribute("tabindex"), false);
});

test("numbers: typing, arrows, presets and a paste over several boxes", () => {
  const boxes = [...root.querySelectorAll("input.number")];
  assert.deepEqual(boxes.map((box) => box.value), ["1", "2", "3"]);
  assert.equal(new Set(boxes.map((box) => box.getAttribute("aria-label"))).size, 3);
  boxes[1].value = "nan";
  boxes[1].dispatchEvent(new Event("input", { bubbles: true }));
  assert.deepEqual(sent.at(-1), ["v", "1,nan,3"]);
  key(boxes[0], "ArrowUp");
  assert.deepEqual(sent.at(-1), ["v", "1.05,nan,3"]);
  key(boxes[1], "ArrowUp");
  assert.equal(sent.length, 2);
  const paste = new Event("paste", { bubbles: true, cancelable: true });
  paste.clipboardData = { getData: () => "7 8\n9 10" };
  boxes[1].dispatchEvent(paste);
  assert.deepEqual(sent.at(-1), ["v", "1.05,7,8"]);
  $(".presets button").click();
  assert.deepEqual(sent.at(-1), ["v", "0.1,0.2,0.3"]);
});

test("numbers: what is no number goes when the reader leaves the box", () => {
  const [box] = root.querySelectorAll("input.number");
  box.focus();
  box.value = "abc";
  box.dispatchEvent(new Event("input", { bubbles: true }));
  assert.equal(box.value, "abc");
  box.blur();
  assert.equal(box.value, "1");
});

const open = async (input, name, text) => {
  const file = new dom.window.File([text], name);
  file.slice = () => ({ text: async () => text });
  Object.defineProperty(input, "files", { value: [file] });
  Object.defineProperty(input, "value", { value: "", writable: true });
  input.dispatchEvent(new Event("change"));
  await new Promise((done) => { setTimeout(done, 20); });
};

test("a file fills the numbers, the rest is 0", async () => {
  await open($(".numbers .opener input"), "v.txt", "[1.5, -2]");
  assert.deepEqual(sent.at(-1), ["v", "1.5,-2,0"]);
});

test("a paste that does not fit is refused and says so", () => {
  const area = $(".text textarea");
  const note = [...area.parentNode.children].find((node) => node.matches("span[role=status]"));
  const before = sent.length;
  for (const [text, kind] of [["123456", "paste"], ["123456", "drop"], ["12345", "paste"]]) {
    area.value = "";
    const event = new Event(kind, { bubbles: true, cancelable: true });
    event[kind === "paste" ? "clipboardData" : "dataTransfer"] = { getData: () => text };
    note.hidden = true;
    area.dispatchEvent(event);
    assert.equal(event.defaultPrevented, text.length > 5);
    assert.equal(note.hidden, text.length <= 5);
  }
  assert.equal(note.textContent, "Not pasted: 6 characters, of which 5 fit. Open it from a file.");
  area.value = "abcde";
  area.setSelectionRange(1, 4); // three of five go
  const fits = new Event("paste", { bubbles: true, cancelable: true });
  fits.clipboardData = { getData: () => "123" };
  area.dispatchEvent(fits);
  assert.equal(fits.defaultPrevented, false);
  assert.equal(sent.length, before);
});

test("a file is cut to the limit of its control", async () => {
  assert.equal($(".text .opener button").textContent, "Open a log from a file");
  await open($(".text .opener input"), "big.log", "0123456789");
  assert.deepEqual(sent.at(-1), ["log", "01234"]);
  assert.match($(".text .opener .help").textContent, /first 5 characters of big.log/);
});

test("one line of text is an input, more are an area", () => {
  assert.equal($("input[type=text]:not(.number)").value, "x");
  assert.equal($("textarea").rows, 3);
});

test("the tab stop of a grid is the cell that the state holds, and its sentence is said", () => {
  const cells = [...root.querySelectorAll("td[role=gridcell]")];
  assert.deepEqual(cells.map((cell) => cell.tabIndex), [-1, 0]);
  assert.equal($(".grid .say").textContent, "Bit 6: 1");
});
