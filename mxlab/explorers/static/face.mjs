// The face of every explorer: draws controls and panels from JSON, sends the state back.
// It computes no number. The same module serves JupyterLab (anywidget, where Python joins these
// files into one) and the published page. Text goes in as textContent only; the CSS comes as data
// because a shadow tree needs its own.

import { form } from "./controls.mjs";
import { h, reveal, same, write } from "./dom.mjs";
import { MAKERS, retitle } from "./panels.mjs";
import { actions } from "./takeaway.mjs";

let faces = 0;
const titles = new Map(); // title -> how many faces have had it: a landmark's name is its own

function dress(root, css) {
  try {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(css);
    root.adoptedStyleSheets = [sheet];
  } catch {
    root.append(h("style", {}, css));
  }
}

/** Narrow panels stand two to a row where there is room; one that is left over has the row. */
function pair(panels) {
  let open; // the first of a row
  for (const node of [...panels, undefined]) {
    const whole = !node || /\b(verdicts|drawing|wide)\b/.test(node.className);
    if (open) open.classList.toggle("alone", whole);
    open = whole || open ? undefined : node;
    if (node && !open) node.classList.remove("alone");
  }
}

function render({ model, el }) {
  const spec = model.get("spec"), uid = `mx${(faces += 1)}`;
  const host = h("div", { class: "mxlab-face", "data-lm-suppress-shortcuts": "true" });
  el.append(host);
  const root = host.attachShadow({ mode: "open" });
  dress(root, model.get("css"));

  const answer = h("p", { class: "answer", role: "status" });
  const notice = h("p", { class: "notice", role: "status" });
  const told = h("span", { class: "told", role: "status" });
  const panels = h("div", { class: "panels" });
  const send = (name, value, also = {}) => { // one message, whatever else changes with it
    for (const [other, its] of Object.entries(also)) model.set(other, its);
    model.set(name, value);
    model.save_changes();
  };
  const controls = form(spec, (name) => model.get(name), send, uid);
  const foot = spec.bare ? "" : actions(model, spec, root, (text) => { told.textContent = text; });
  if (foot) foot.append(told);
  const nth = (titles.get(spec.title) ?? 0) + 1;
  titles.set(spec.title, nth);
  const name = nth > 1 ? `${spec.title} ${nth}` : spec.title;
  root.append(h("section", { class: spec.bare ? "explorer bare" : "explorer", "aria-label": name },
    h("p", { class: "title" }, spec.title), h("p", { class: "question" }, spec.question),
    controls.node, notice, answer, panels, foot));

  const drawn = new Map();
  const context = {
    root, uid, send,
    link: (href) => (model.get("site") ? new URL(href, model.get("site")).href : ""),
    follow: (key, from) => {
      for (const { mark, node } of drawn.values()) {
        const found = mark?.(key);
        if (found && node !== from) reveal(found);
      }
    },
  };

  const paint = () => {
    const { view, error } = model.get("answer") ?? {};
    host.classList.toggle("stale", Boolean(error));
    if (error) {
      answer.className = "answer";
      write(answer, error);
    }
    if (!view) return;
    if (!error) {
      answer.className = `answer s-${view.status}`;
      write(answer, `${view.sign} ${view.answer}`);
    }
    const gone = new Set(drawn.keys());
    view.panels.forEach((panel, index) => {
      gone.delete(panel.id);
      const old = drawn.get(panel.id);
      if (old && same(old.last, panel)) return;
      if (!old || old.update(panel) === false) {
        const made = MAKERS[panel.kind](panel, context);
        if (old) old.node.replaceWith(made.node);
        else panels.insertBefore(made.node, panels.children[index] ?? null);
        drawn.set(panel.id, made);
      } else retitle(old.node, panel);
      drawn.get(panel.id).last = panel;
    });
    for (const id of gone) {
      drawn.get(id).node.remove();
      drawn.delete(id);
    }
    pair([...panels.children]);
  };
  const warn = () => {
    const text = model.get("notice") ?? "";
    notice.textContent = text;
    notice.hidden = !text;
    controls.node.inert = Boolean(model.get("dead"));
  };

  const listeners = [["change:answer", paint], ["change:notice", warn], ["change:dead", warn]];
  for (const [name, show] of controls.shows) {
    listeners.push([`change:${name}`, () => show(model.get(name))]);
  }
  for (const [event, listener] of listeners) model.on(event, listener);
  paint();
  warn();
  return () => {
    for (const [event, listener] of listeners) model.off(event, listener);
    host.remove();
  };
}

// ---- JupyterLab: the saved output is HTML with a mount point; the face goes there while a kernel
// holds the model. Nothing here waits: anywidget drops messages of a slow initialize. -------------

function initialize({ model }) {
  const id = model.get("mount"), live = new Map();
  const mounts = document.getElementsByClassName("mxlab-explorer");
  const hide = (mount, hidden) => {
    for (const still of mount.getElementsByClassName("mxlab-static")) still.hidden = hidden;
  };
  const scan = () => {
    for (const mount of mounts) {
      if (mount.id === id && !live.has(mount)) {
        live.set(mount, render({ model, el: mount }));
        hide(mount, true);
      }
    }
    for (const [mount, stop] of live) {
      if (!mount.isConnected) {
        stop();
        live.delete(mount);
      }
    }
  };
  const eye = new MutationObserver(scan);
  eye.observe(document.body, { childList: true, subtree: true });
  scan();

  const pulse = async () => { // the proxy does not expose comm_live
    const whole = await model.widget_manager?.get_model?.(model.model_id ?? id.slice(6));
    if (!whole || whole.comm_live !== false) return;
    model.set("dead", true);
    model.set("notice", "The kernel that computed this is gone. Run the cell again.");
  };
  model.on("comm_live_update", pulse);
  Promise.resolve().then(pulse).catch(() => {});
  return () => {
    eye.disconnect();
    model.off("comm_live_update", pulse);
    for (const [mount, stop] of live) {
      stop();
      hide(mount, false);
    }
  };
}

export default { render, initialize };
