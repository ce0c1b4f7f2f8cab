// A block of numbers: type, paste, drag a box up or down, step with the arrow keys, take a preset.

import { h } from "./dom.mjs";
import { opener } from "./opener.mjs";

const STEP = 1.05; // what one pixel or one key multiplies by
const split = (text) => text.split(/[\s,;()[\]{}]+/).filter(Boolean); // as Python does

/** Returns {fields, show(value)}; the value is the numbers' texts with commas between. */
export function numbers(spec, common, guarded, send) {
  const boxes = [];
  let last = ""; // what the state holds
  const sent = () => send(boxes.map((box) => box.value.trim() || "0").join(","));
  const scale = (box, steps) => {
    const value = Number(box.value);
    if (!Number.isFinite(value)) return;
    box.value = Number(((value || 0.001) * STEP ** steps).toPrecision(4));
    sent();
  };
  for (let i = 0; i < spec.count; i += 1) {
    let from;
    const box = h("input", { ...guarded, type: "text", inputmode: "decimal", autocomplete: "off",
      spellcheck: "false", maxlength: 32, class: "number", "aria-label": `${spec.label} ${i}`,
      oninput: sent, onblur: () => show(last),
      onpaste: (event) => {
        const parts = split(event.clipboardData?.getData("text") ?? "");
        if (parts.length < 2) return;
        event.preventDefault();
        parts.slice(0, spec.count - i).forEach((part, n) => {
          boxes[i + n].value = part.slice(0, 32);
        });
        sent();
      },
      onkeydown: (event) => {
        const steps = { ArrowUp: 1, ArrowDown: -1, PageUp: 14, PageDown: -14 }[event.key];
        if (!steps || event.altKey || event.ctrlKey || event.metaKey) return;
        event.preventDefault();
        scale(box, steps);
      },
      onpointerdown: (event) => { from = event.clientY; },
      onpointermove: (event) => {
        if (from === undefined || !(event.buttons & 1)) return;
        const moved = Math.trunc(from - event.clientY);
        if (Math.abs(moved) < 4) return; // a click, not yet a drag
        box.setPointerCapture?.(event.pointerId);
        scale(box, moved);
        from = event.clientY;
      },
      onpointerup: () => { from = undefined; },
      onpointercancel: () => { from = undefined; } });
    boxes.push(box);
  }
  const show = (value) => {
    last = value;
    split(value).forEach((text, i) => {
      const box = boxes[i];
      if (!box || box.value === text || Number(box.value) === Number(text)) return;
      if (box.getRootNode().activeElement !== box) box.value = text; // not under the reader's hands
    });
  };
  const presets = spec.presets.map(([text, value]) => h("button", { type: "button", onclick: () => {
    split(value).forEach((part, i) => { boxes[i].value = part; });
    sent();
  } }, text));
  const fields = [h("div", { class: "boxes", role: "group", "aria-label": spec.label,
    "aria-describedby": common["aria-describedby"] }, ...boxes)];
  if (presets.length) {
    fields.push(h("div", { class: "presets", role: "group", "aria-label": "Presets" }, ...presets));
  }
  if (spec.file) {
    fields.push(opener(spec, (text) => {
      const parts = split(text);
      boxes.forEach((box, i) => { box.value = (parts[i] ?? "0").slice(0, 32); });
      sent();
    }));
  }
  return { fields, show };
}
