// A file in place of a paste.

import { h } from "./dom.mjs";

/** A button that sends the first `limit` characters of a file that the reader chooses. */
export function opener(spec, send) {
  const input = h("input", { type: "file", class: "sr", tabindex: "-1", "aria-hidden": "true",
    "data-lm-suppress-shortcuts": "true",
    onchange: async () => {
      const [file] = input.files;
      if (!file) return;
      const text = await file.slice(0, spec.limit * 4).text(); // UTF-8 takes 4 bytes at most
      send(text.slice(0, spec.limit));
      note.textContent = text.length > spec.limit
        ? `The first ${spec.limit.toLocaleString("en")} characters of ${file.name}.` : file.name;
      input.value = "";
    } });
  const note = h("span", { class: "help", role: "status" });
  return h("div", { class: "opener" }, h("button", { type: "button", onclick: () => input.click() },
    `Open ${spec.file} from a file`), input, note);
}
