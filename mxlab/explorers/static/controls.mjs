// The controls, grouped. They are made once and never rebuilt, so focus stays.

import { answer } from "./answer.mjs";
import { h } from "./dom.mjs";
import { numbers } from "./numbers.mjs";
import { opener } from "./opener.mjs";

/** Refuses a paste that does not fit, and says so: maxlength would cut it without a word. */
function bounded(spec) {
  const note = h("span", { class: "help", role: "status", hidden: true });
  const clear = () => { note.hidden = true; };
  const check = (event) => {
    const text = (event.clipboardData ?? event.dataTransfer)?.getData("text") ?? "";
    const { value, selectionStart, selectionEnd } = event.target;
    const length = value.length - (selectionEnd - selectionStart) + text.length;
    if (length <= spec.limit) return;
    event.preventDefault();
    note.textContent = `Not pasted: ${length.toLocaleString("en")} characters, of which `
      + `${spec.limit.toLocaleString("en")} fit.${spec.file ? " Open it from a file." : ""}`;
    note.hidden = false;
  };
  return { note, check, clear };
}

/** One control: {node, show(value)}; `send(value)` is called with what the reader chose. */
function control(spec, send, uid, get) {
  const id = `${uid}-${spec.name}`;
  const guarded = { "data-lm-suppress-shortcuts": "true" }; // else JupyterLab eats the arrow keys
  const note = spec.help ? h("span", { class: "help", id: `${id}-help` }, spec.help) : "";
  const common = { id, ...guarded, "aria-describedby": spec.help ? `${id}-help` : null };
  const parts = spec.label.split(/(?<=_)/); // a long name breaks behind an underscore
  const label = h("label", { for: id }, ...parts.flatMap((part) => [part, h("wbr")]).slice(0, -1));
  let show, fields;
  if (spec.kind === "choice") {
    const options = spec.options.map(([value, text]) => h("option", { value }, text));
    const select = h("select", { ...common, onchange: () => send(select.value) }, ...options);
    show = (value) => { select.value = value; };
    fields = [select];
  } else if (spec.kind === "numbers") {
    const part = numbers(spec, common, guarded, send);
    show = part.show;
    return { node: h("fieldset", { class: "control numbers" }, h("legend", {}, spec.label),
      ...part.fields, note), show };
  } else if (spec.kind === "checked") {
    ({ fields, show } = answer(spec, common, get, send));
  } else if (spec.kind === "text" && spec.lines === 1) {
    const room = bounded(spec);
    const line = h("input", { ...common, type: "text", maxlength: spec.limit, spellcheck: "false",
      autocomplete: "off", onpaste: room.check, ondrop: room.check,
      oninput: () => { room.clear(); send(line.value); } });
    show = (value) => { if (line.value !== value) line.value = value; };
    fields = [line, room.note];
  } else if (spec.kind === "text") {
    const room = bounded(spec);
    const area = h("textarea", { ...common, rows: spec.lines, maxlength: spec.limit,
      spellcheck: "false", onpaste: room.check, ondrop: room.check,
      oninput: () => { room.clear(); send(area.value); } });
    show = (value) => { if (area.value !== value) area.value = value; };
    fields = [area, room.note];
    if (spec.file) fields.push(opener(spec, (text) => { show(text); send(text); }));
  } else {
    const number = h("input", { ...common, type: "number", min: spec.low, max: spec.high, step: 1,
      inputmode: "numeric", required: true,
      oninput: () => { if (number.checkValidity()) send(number.valueAsNumber); },
      onchange: () => {
        if (!number.checkValidity()) number.value = clamp(number.valueAsNumber, spec, last);
        send(number.valueAsNumber);
      } });
    let last = spec.default;
    fields = [number];
    let range;
    if (spec.slider) {
      const [min, max, step] = spec.slider;
      range = h("input", { ...guarded, type: "range", min, max, step, "aria-label": spec.label,
        oninput: () => send(range.valueAsNumber) });
      fields.unshift(range);
    }
    show = (value) => {
      last = value;
      if (number.value !== String(value)) number.value = value;
      if (range && range.value !== String(value)) range.value = value;
    };
  }
  return { node: h("div", { class: `control ${spec.kind}` }, label, ...fields, note), show };
}

const clamp = (value, spec, last) =>
  Number.isFinite(value) ? Math.round(Math.min(Math.max(value, spec.low), spec.high)) : last;

/** All controls under their groups. */
export function form(spec, values, send, uid) {
  const shows = new Map(), groups = new Map(), bound = new Map(); // node -> when
  for (const item of spec.controls) {
    const { node, show } = control(item, (...what) => send(item.name, ...what), uid, values);
    shows.set(item.name, show);
    show(values(item.name));
    if (!groups.has(item.group)) groups.set(item.group, []);
    groups.get(item.group).push(node);
    if (item.when) bound.set(node, item.when);
  }
  const sets = [...groups].map(([name, nodes]) =>
    h("fieldset", {}, name ? h("legend", {}, name) : "", ...nodes));
  const tidy = () => {
    for (const [node, [name, those]] of bound) node.hidden = !those.includes(`${values(name)}`);
    [...groups.values()].forEach((nodes, i) => { sets[i].hidden = nodes.every((n) => n.hidden); });
  };
  tidy();
  for (const name of new Set([...bound.values()].map(([name]) => name))) {
    const show = shows.get(name);
    shows.set(name, (value) => { show(value); tidy(); });
  }
  return { node: h("form", { class: "controls", onsubmit: (e) => e.preventDefault() }, ...sets),
    shows };
}
