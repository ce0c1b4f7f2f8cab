// An answer: a line, or an area for code, that is sent when Check is pressed. It judges nothing.

import { h } from "./dom.mjs";

/** Type a text at the cursor, so that the browser can undo it. */
function type(field, text) {
  if (!document.execCommand?.("insertText", false, text)) {
    field.setRangeText(text, field.selectionStart, field.selectionEnd, "end");
  }
}

/** A new line of code begins below the one before, deeper after a colon. */
function indent(field) {
  const line = field.value.slice(0, field.selectionStart).split("\n").pop();
  const deep = line.match(/^ */)[0] + (line.trimEnd().endsWith(":") ? "    " : "");
  if (deep) type(field, `\n${deep}`);
  return Boolean(deep);
}

/** Returns {fields, show(value)}; `send(value, {tries})` is called, `get` reads what is shown. */
export function answer(spec, common, get, send) {
  const code = spec.lines > 1;
  let last = spec.default; // what was checked
  const check = () => {
    const { status } = get("answer")?.view ?? {}, before = get(spec.counts);
    const tries = { warns: before + 1, passes: 0 }[status] ?? before;
    const changed = field.value !== last;
    last = field.value;
    send(last, changed ? { [spec.counts]: tries } : {});
  };
  const field = h(code ? "textarea" : "input", { ...common, type: code ? null : "text",
    rows: code ? spec.lines : null, maxlength: spec.limit, spellcheck: "false", autocomplete: "off",
    autocapitalize: "off", wrap: code ? "off" : null,
    onkeydown: (event) => { // Tab leaves the field, as everywhere
      if (event.key !== "Enter" || event.isComposing) return;
      const asked = !code || event.ctrlKey || event.metaKey || event.shiftKey;
      if (asked) check();
      if (asked || indent(field)) event.preventDefault();
    } });
  const show = (value) => { if (field.value !== value) field.value = value; };
  const buttons = [h("button", { type: "button", class: "check", onclick: check }, "Check")];
  if (code) {
    buttons.push(h("button", { type: "button", onclick: () => {
      field.value = spec.default;
      field.focus();
    } }, "Start again"));
  }
  return { fields: [h("div", { class: "row" }, field, ...buttons)], show };
}
