// A drawing: shapes that Python placed, in the host's colours. It computes no number.

import { h, write } from "./dom.mjs";

const HINT = "Point at a mark to read it.";
const SVG = "http://www.w3.org/2000/svg";

function s(tag, attributes, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const DRAW = {
  box: ([x, y, width, height]) => s("rect", { x, y, width, height }),
  dot: ([cx, cy, r]) => s("circle", { cx, cy, r }),
  line: (at) => s("path", { d: `M${at.join(" ")}` }),
  area: (at) => s("path", { d: `M${at.join(" ")}z` }),
  text: ([x, y], text, anchor) => s("text", { x, y, "text-anchor": anchor }, text),
};

function made([kind, at, tone = -1, text = "", anchor = "start", strong, dashed, key = -1, say = ""]) {
  const node = DRAW[kind](at, text, anchor);
  const looks = [kind, tone < 0 ? (tone < -1 ? "dim" : "ink") : `t${tone}`];
  if (strong) looks.push("strong");
  if (dashed) looks.push("dashed");
  node.setAttribute("class", looks.join(" "));
  if (key >= 0) node.dataset.key = key;
  if (say) node.dataset.say = say;
  return node;
}

/** Returns {node, update, mark} as every panel does. */
export function drawing(first, context, frame) {
  const legend = h("ul", { class: "legend" }), alt = h("p", { class: "alt" });
  const say = h("p", { class: "say" });
  const sheet = s("svg", { role: "img", class: "sheet" });
  const paper = h("div", { class: "paper" }, sheet);
  const node = frame(first, alt, legend, paper, say);
  let centre, width;
  sheet.addEventListener("pointerover", ({ target }) => {
    if (!target.dataset) return;
    if (target.dataset.say) say.textContent = target.dataset.say;
    if (target.dataset.key) context.follow(Number(target.dataset.key), node);
  });
  const update = (panel) => {
    write(alt, panel.alt);
    sheet.setAttribute("viewBox", `0 0 ${panel.width} ${panel.height}`);
    sheet.setAttribute("aria-label", panel.alt);
    sheet.style.minWidth = `${Math.min(panel.width, 640)}px`; // below that, texts are too small
    sheet.style.maxWidth = `${1.5 * panel.width}px`;
    say.hidden = !panel.shapes.some((shape) => shape[8]);
    say.textContent = HINT;
    legend.hidden = !panel.legend.length;
    legend.replaceChildren(...panel.legend.map(([tone, text]) => h("li", {},
      h("span", { class: `swatch ${tone < 0 ? "none" : `t${tone}`}`, "aria-hidden": "true" }),
      text)));
    sheet.replaceChildren(...panel.shapes.map(made));
    if (panel.centre === centre && panel.width === width) return;
    ({ centre, width } = panel);
    look();
  };
  const mark = (key) => {
    for (const shape of sheet.children) {
      const on = key >= 0 && shape.dataset.key === `${key}`;
      shape.classList.toggle("linked", on);
      if (on && shape.dataset.say) say.textContent = shape.dataset.say;
    }
    return undefined; // nothing to scroll to: a drawing is shown whole
  };
  // what is wider than its box scrolls, and then a keyboard must reach it
  const look = () => {
    const wide = paper.scrollWidth > paper.clientWidth + 1;
    if (!wide) ["tabindex", "role", "aria-label"].forEach((name) => paper.removeAttribute(name));
    else {
      paper.tabIndex = 0;
      paper.setAttribute("role", "group");
      paper.setAttribute("aria-label", first.title);
      paper.scrollLeft = paper.scrollWidth * centre / width - paper.clientWidth / 2;
    }
  };
  if (globalThis.ResizeObserver) new ResizeObserver(look).observe(paper);
  update(first);
  return { node, update, mark };
}
