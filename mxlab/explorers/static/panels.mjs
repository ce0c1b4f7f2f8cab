// The panels. Each maker returns {node, update(panel)}; update returns false to be made anew.

import { drawing } from "./drawing.mjs";
import { h, move, reveal, same, write } from "./dom.mjs";

function frame(panel, ...children) {
  const head = h("p", { class: "panel-title" }, panel.title);
  const looks = `panel ${panel.kind}${panel.wide ? " wide" : ""}`;
  return h("section", { class: looks, role: "group", "aria-label": panel.title }, head, ...children);
}

/** A title may say what is shown, so that it changes with it: in the head and as names. */
export function retitle(node, { title }) {
  write(node.querySelector(".panel-title"), title);
  for (const named of [node, node.querySelector("table[role=grid]")]) {
    named?.setAttribute("aria-label", title);
  }
}

function facts(first) {
  const body = h("tbody"), alt = h("caption", { class: "sr" });
  const node = frame(first, h("table", { class: "plain" }, alt, body));
  const update = (panel) => {
    alt.textContent = panel.alt;
    body.replaceChildren(...panel.rows.map(([name, value, how], i) =>
      h("tr", {}, h("th", { scope: "row" }, panel.tones[i] >= 0
        ? h("span", { class: `swatch t${panel.tones[i]}`, "aria-hidden": "true" }) : "", name),
      h("td", { class: "value" }, value), h("td", { class: "how" }, how))));
  };
  update(first);
  return { node, update };
}

function verdicts(first, context) {
  const list = h("ol", { class: "items" }), alt = h("p", { class: "alt" });
  const all = h("button", { type: "button", class: "more", onclick: () => {
    const folds = [...list.querySelectorAll("details")], open = folds.some((fold) => !fold.open);
    for (const fold of folds) fold.open = open;
  } }, "Unfold or fold every line");
  const node = frame(first, alt, list, all);
  let drawn = new Map(); // run as JSON -> its line, so that what did not change stays untouched
  const update = (panel) => {
    alt.textContent = panel.alt;
    all.hidden = !panel.runs.some((run) => run.items[0].quiet);
    const active = context.root.activeElement;
    const focus = list.contains(active) && (active.href || active.closest("details")?.dataset.fold);
    const open = new Set([...list.querySelectorAll("details[open]")].map((d) => d.dataset.fold));
    const seen = new Map(), next = new Map(); // a fold is known by its stage and place within it
    for (const run of panel.runs) {
      const { stage } = run.items[0];
      const name = `${stage}.${seen.get(stage) ?? 0}`;
      if (run.items[0].quiet) seen.set(stage, (seen.get(stage) ?? 0) + 1);
      const key = name + JSON.stringify(run);
      next.set(key, drawn.get(key) ?? line(run, name, open.has(name), context));
    }
    for (const [key, node] of drawn) if (!next.has(key)) node.remove();
    let at = list.firstChild;
    for (const node of next.values()) {
      if (node === at) at = at.nextSibling;
      else list.insertBefore(node, at);
    }
    drawn = next;
    if (focus && !list.contains(context.root.activeElement)) {
      [...list.querySelectorAll("a, summary")].find((to) => to.href === focus
        || to.parentNode.dataset.fold === focus)?.focus({ preventScroll: true });
    }
  };
  update(first);
  return { node, update };
}

/** One verdict, or a fold of quiet ones. */
function line(run, name, open, context) {
  const { quiet, stage, status } = run.items[0];
  if (!quiet) return verdict(run.items[0], context);
  return h("li", { class: `item fold s-${status}` }, h("details", { "data-fold": name, open },
    h("summary", {}, h("span", { class: "stage" }, stage), ` ${run.said}`),
    h("ul", {}, ...run.items.map((item) => verdict(item, context)))));
}

function verdict(item, { link }) {
  const href = item.href && link(item.href);
  const name = href ? h("a", { href, class: "name" }, item.name)
    : h("span", { class: "name" }, item.name);
  const notes = item.notes.map(([what, text]) =>
    h("div", {}, h("dt", {}, what), h("dd", {}, text)));
  return h("li", { class: `item s-${item.status}` },
    h("span", { class: "stage" }, item.stage),
    h("span", { class: "status" }, h("span", { class: "sign", "aria-hidden": "true" }, item.sign),
      ` ${item.status}`),
    name, h("span", { class: "because" }, item.because),
    item.message ? h("p", { class: "message" }, item.message) : "",
    notes.length ? h("dl", { class: "notes" }, ...notes) : "");
}

function grid(first, context) {
  const uid = `${context.uid}-${first.id}`;
  const legend = h("ul", { class: "legend" });
  const alt = h("p", { class: "alt", id: `${uid}-alt` });
  const say = h("p", { class: "say" });
  const marks = first.text.every((row) => row.every((text) => text.length < 3)); // a map of signs
  const looks = ["grid", first.large && "large", first.columns.length > 8 && "dense",
    first.columns.length > 15 && marks && "map"];
  const table = h("table", { class: looks.filter(Boolean).join(" "), role: "grid",
    "aria-label": first.title, "aria-describedby": `${uid}-alt`,
    "data-lm-suppress-shortcuts": "true" });
  table.style.setProperty("--mx-columns", first.columns.length);
  const node = frame(first, alt, legend, h("div", { class: "scroll" }, table), say);
  const rows = first.rows.map((name) =>
    h("tr", {}, h("th", { scope: "row" }, name), ...first.columns.map(() =>
      h("td", { role: "gridcell", tabindex: "-1" }))));
  table.append(
    h("thead", {}, h("tr", {}, h("td", {}, first.corner),
      ...first.columns.map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, ...rows));
  const cells = rows.map((row) => [...row.children].slice(1));
  let panel = first, stop = [0, 0], shown;
  cells[0][0].tabIndex = 0;
  const place = (td) => [td.parentNode.sectionRowIndex, td.cellIndex - 1];
  const sentence = (r, c) => (panel.tone[r][c] < 0
    ? `${panel.corner} ${panel.rows[r]}, ${panel.columns[c]}: ${panel.nothing}`
    : panel.say.replace(/\{(row|column|text|legend)\}/g, (_, what) =>
      ({ row: panel.rows[r], column: panel.columns[c], text: panel.text[r][c],
        legend: panel.legend[panel.tone[r][c]] })[what]));
  const point = (td) => {
    const [r, c] = place(td);
    say.textContent = sentence(r, c);
    context.follow(panel.key[r][c], node);
  };
  const cellOf = (event) => event.target.closest?.("td[role=gridcell]");
  table.addEventListener("pointerover", (event) => { const td = cellOf(event); if (td) point(td); });
  table.addEventListener("focusin", (event) => {
    const td = cellOf(event);
    if (!td) return;
    cells[stop[0]][stop[1]].tabIndex = -1;
    stop = place(td);
    td.tabIndex = 0;
    point(td);
  });
  const choose = (td) => {
    const [r, c] = place(td), value = panel.values[r]?.[c];
    if (!panel.sets || value == null) return;
    const names = panel.sets.split(" "), parts = names.length > 1 ? value.split(" ") : [value];
    names.forEach((name, i) => context.send(name, parts[i]));
  };
  table.addEventListener("click", (event) => {
    const td = cellOf(event);
    if (!td) return;
    td.focus();
    choose(td);
  });
  table.addEventListener("keydown", (event) => {
    if (panel.sets && (event.key === "Enter" || event.key === " ")) {
      event.preventDefault();
      event.stopPropagation();
      choose(cells[stop[0]][stop[1]]);
      return;
    }
    const to = move(event, stop, cells.length, cells[0].length);
    if (!to) return;
    event.preventDefault();
    event.stopPropagation();
    cells[to[0]][to[1]].focus();
  });
  const update = (next) => {
    if (next.rows.length !== panel.rows.length || next.columns.length !== panel.columns.length) {
      return false;
    }
    panel = next;
    alt.textContent = panel.alt;
    [...table.tHead.rows[0].cells].forEach((th, i) => {
      write(th, i ? panel.columns[i - 1] : panel.corner);
    });
    legend.replaceChildren(...panel.legend.map((text, i) =>
      h("li", {}, h("span", { class: `swatch t${panel.tones[i]}`, "aria-hidden": "true" }), text)));
    cells.forEach((row, r) => {
      write(rows[r].firstChild, panel.rows[r]);
      row.forEach((td, c) => {
        write(td, panel.text[r][c]);
        const tone = panel.tone[r][c] < 0 ? "none" : `t${panel.tones[panel.tone[r][c]]}`;
        const able = panel.sets && panel.values[r]?.[c] != null ? " able" : "";
        if (td.className !== tone + able) td.className = tone + able;
        if (td.ariaSelected) td.ariaSelected = null;
      });
    });
    for (const [r, c] of panel.chosen) {
      cells[r][c].ariaSelected = "true";
      cells[r][c].classList.add("chosen");
    }
    const [first] = panel.chosen, inside = context.root.activeElement?.closest?.("table") === table;
    if (first && !same(first, shown)) { // once this grid is in its page
      Promise.resolve().then(() => reveal(cells[first[0]][first[1]]));
      if (!inside) { // Tab then leads to what is chosen, and the sentence says it
        cells[stop[0]][stop[1]].tabIndex = -1;
        stop = [...first];
        cells[stop[0]][stop[1]].tabIndex = 0;
      }
    }
    shown = first;
    if (inside) point(cells[stop[0]][stop[1]]);
    else say.textContent = sentence(...stop);
    return true;
  };
  const mark = (key) => {
    let found;
    cells.forEach((row, r) => row.forEach((td, c) => {
      const on = key >= 0 && panel.key[r][c] === key;
      td.classList.toggle("linked", on);
      if (on) found = td;
    }));
    if (found) say.textContent = sentence(...place(found));
    return found;
  };
  update(first);
  return { node, update, mark };
}

export const MAKERS = {
  facts, verdicts, grid, drawing: (first, context) => drawing(first, context, frame),
};
