// Taking a view away: link, command, Python, CSV, JSON, SVG, PNG.

import { h } from "./dom.mjs";

function records(view) {
  const rows = [["panel", "row", "column", "value"]];
  for (const panel of view.panels) {
    if (panel.kind === "grid") {
      panel.rows.forEach((row, r) => panel.columns.forEach((column, c) =>
        rows.push([panel.id, row, column, panel.text[r][c]])));
    } else if (panel.kind === "facts") {
      for (const [name, value, how] of panel.rows) {
        rows.push([panel.id, name, "value", value], [panel.id, name, "how", how]);
      }
    } else if (panel.kind === "verdicts") {
      for (const item of panel.runs.flatMap((run) => run.items)) {
        for (const field of ["stage", "status", "because", "message"]) {
          rows.push([panel.id, item.name, field, item[field]]);
        }
      }
    }
  }
  return rows;
}

/** A view as CSV; a text that a spreadsheet would run as a formula gets an apostrophe. */
export function csv(view) {
  const cell = (text) => `"${(/^[=+@\t\r-]/.test(text) && !/^[+-]?\d+$/.test(text) ? "'" : "")
    + text.replaceAll('"', '""')}"`;
  return records(view).map((row) => `${row.map(cell).join(",")}\r\n`).join("");
}

/** The picture as Python draws it: on the page from the worker, in JupyterLab from the kernel. */
function picture(model) {
  const asked = model.get("picture");
  if (asked) return asked();
  return new Promise((answer) => {
    const wait = setTimeout(() => heard({ svg: "" }), 5000);
    const heard = ({ svg }) => {
      if (svg === undefined) return;
      clearTimeout(wait);
      model.off("msg:custom", heard);
      answer(svg);
    };
    model.on("msg:custom", heard);
    model.send({ want: "picture" });
  });
}

/** An SVG as a PNG blob, twice its size. */
async function png(svg) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = h("canvas", { width: 2 * image.width, height: 2 * image.height });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((made) => { canvas.toBlob(made, "image/png"); });
}

function save(name, type, content) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

async function copy(text, root) {
  try {
    await navigator.clipboard.writeText(text);
  } catch { // plain http, or no permission
    const area = h("textarea", { class: "sr", "aria-hidden": "true" });
    area.value = text;
    root.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

export function actions(model, spec, root, tell) {
  const view = () => model.get("answer")?.view;
  const button = (text, what) => h("button", { type: "button", onclick: async () => {
    if (!view()) return tell("There is no view yet.");
    return tell(await what(view()) ?? "");
  } }, text);
  const copied = (text, what) => copy(text, root).then(() => `Copied: ${what}.`);
  const file = (ending, type, content) => {
    const name = `${spec.name.replace(":", "-")}.${ending}`; // guard:cfg-rocm is one of a family
    save(name, type, content);
    return `Saved: ${name}.`;
  };
  const drawn = async (make) => {
    const svg = await picture(model);
    return svg ? make(svg) : "The picture could not be drawn.";
  };
  const link = model.get("permalink");
  return h("div", { class: "actions", role: "group", "aria-label": "Take it away" },
    link ? button("Copy link", () => copied(link(), "a link to this state")) : "",
    button("Copy command", (v) => copied(v.cli, "a command line")),
    button("Copy Python", (v) => copied(v.python, "Python")),
    button("Save CSV", (v) => file("csv", "text/csv", csv(v))),
    button("Save JSON", () => file("json", "application/json",
      JSON.stringify(model.get("answer"), null, 1))),
    button("Save SVG", () => drawn((svg) => file("svg", "image/svg+xml", svg))),
    button("Save PNG", () => drawn(async (svg) => file("png", "image/png", await png(svg)))),
    button("Reset", () => {
      for (const item of spec.controls) model.set(item.name, item.default);
      model.save_changes();
      return "Set back to the start.";
    }));
}
