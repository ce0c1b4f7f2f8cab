// Loads the explorers of a page: face first, Python when the reader first reaches for one.
// A classic script, so that it can also speak when the page was opened from a file.
(() => {
  const ASSETS = "mxlab-HASH/"; // written by tools/site_assets.py
  const PYODIDE = "../PYODIDE/"; // seen from there
  const LIMIT = 2000; // ms that one view may take
  const STARTING = "Starting Python in this page (6 MB the first time)...";
  const mounts = [...document.querySelectorAll(".mxlab-explorer[data-name]")];
  if (!mounts.length) return;

  const base = new URL(ASSETS, document.currentScript.src);
  const site = new URL("../../", document.currentScript.src).href;
  const models = new Map(); // mount id -> model

  // ---- the worker: one request at a time, the newest state of each explorer wins ----
  let worker, ready = false, current, timer, sequence = 0;
  const waiting = new Map();

  function startWorker() {
    ready = false;
    try {
      const url = new URL(`worker.mjs#${encodeURIComponent(PYODIDE)}`, base);
      worker = new Worker(url, { type: "module" });
    } catch (error) {
      fail(error.message);
      return;
    }
    worker.onmessage = ({ data }) => {
      if (data.fatal && ready && current) { // what one view did to Python, not Python's start
        stopped(`Python broke at this (${data.fatal}) and was started anew.`);
      } else if (data.fatal) fail(data.fatal);
      else if (data.ready) {
        ready = data.ready;
        for (const model of models.values()) {  // what was stopped stays said until an answer
          if (model.get("notice") === STARTING) model.set("notice", "");
        }
        next();
      } else receive(data);
    };
    worker.onerror = (event) => fail(event.message || "the worker could not be loaded");
  }

  function say(text, dead = false) {
    for (const model of models.values()) {
      model.set("notice", text);
      model.set("dead", dead);
    }
  }

  function fail(text) {
    clearTimeout(timer);
    worker?.terminate();
    worker = undefined;
    for (const model of models.values()) model.stale(false); // it is all that there is
    say(`Python could not start here (${text}). The picture and table below are still right for `
      + "their settings; reload the page to try again.", true);
  }

  function ask(model) {
    waiting.set(model.id, model);
    if (!worker) {
      say(STARTING);
      startWorker();
    } else next();
  }

  function next() {
    if (!ready || current || !waiting.size) return;
    const [id, model] = waiting.entries().next().value;
    waiting.delete(id);
    current = { sequence: (sequence += 1), model, picture: model.wanted?.() };
    timer = setTimeout(stopped, LIMIT,
      "That took more than 2 seconds and was stopped; the last view stays.");
    worker.postMessage({ id: sequence, name: model.name, state: JSON.stringify(model.state()),
      picture: Boolean(current.picture) });
  }

  function receive({ id, json, svg }) {
    if (!current || id !== current.sequence) return;
    clearTimeout(timer);
    const { model, picture } = current;
    current = undefined;
    if (picture) {
      picture(svg);
      next();
      return;
    }
    const answer = JSON.parse(json);
    if (!waiting.has(model.id)) model.adopt(answer.state);
    model.set("answer", { ...answer, view: answer.view ?? model.get("answer")?.view });
    model.set("notice", "");
    if (answer.view) model.live();
    next();
  }

  function stopped(text) {
    clearTimeout(timer);
    const { model, picture } = current;
    current = undefined;
    picture?.("");
    worker.terminate();
    startWorker();
    model.set("notice", text);
    // code that is stopped at its first run does not run again because its field is reached for
    if (model.bare && !model.get("answer")) model.set("answer", {});
  }

  // ---- a model with the interface that the face knows from ipywidgets ----
  function makeModel(mount, css) {
    const spec = JSON.parse(mount.dataset.spec), start = JSON.parse(mount.dataset.state);
    // what is private comes from the reader's hands alone: no page, link or history brings it
    for (const item of spec.controls) if (item.private) start[item.name] = item.default;
    const values = { spec, css, site, ...start }, listeners = new Map();
    const names = spec.controls.map((control) => control.name);
    const lasting = spec.controls.filter((item) => !item.private).map((item) => item.name);
    const model = {
      id: mount.id, name: spec.name, start, lasting, bare: spec.bare,
      get: (name) => values[name],
      set(name, value) {
        if (values[name] === value) return;
        values[name] = value;
        for (const listener of listeners.get(`change:${name}`) ?? []) listener();
      },
      on(event, listener) {
        if (!listeners.has(event)) listeners.set(event, new Set());
        listeners.get(event).add(listener);
      },
      off: (event, listener) => listeners.get(event)?.delete(listener),
      save_changes() {
        ask(model);
        if (!model.get("answer")) model.stale(true); // the picture is of other settings
        if (lasting.length) remember();
      },
      state: () => Object.fromEntries(names.map((name) => [name, values[name]])),
      adopt(state) {
        for (const name of names) if (name in state) model.set(name, state[name]);
      },
      stale(on) {
        for (const still of mount.getElementsByClassName("mxlab-static")) {
          still.classList.toggle("mxlab-stale", on);
        }
      },
      live() {
        for (const still of mount.getElementsByClassName("mxlab-static")) still.hidden = true;
        mount.dataset.live = ready; // warm or cold: how Python started
      },
    };
    // a picture is asked for as if by an explorer beside this one: the same queue, the same limit
    values.picture = () => new Promise((answer) => {
      const { name, state } = model;
      ask({ id: `${mount.id} picture`, name, state, wanted: () => answer, set() {} });
    });
    values.permalink = () => {
      const url = new URL(location.href);
      url.hash = fragment();
      return url.href;
    };
    return model;
  }

  // ---- permalinks: only what differs from the page, in the hash ----
  function fragment() {
    const parts = [];
    for (const model of models.values()) {
      for (const name of model.lasting) {
        const value = model.get(name);
        if (value !== model.start[name] && `${value}`.length <= 500) {
          parts.push(`${encodeURIComponent(`${model.id}.${name}`)}=${encodeURIComponent(value)}`);
        }
      }
    }
    return parts.join("&");
  }

  /** Take states from the hash; the explorers that it names start. */
  function restore() {
    const hash = location.hash.slice(1, 20000);
    if (hash && ![...models.keys()].some((id) => hash.includes(`${id}.`))) return; // an anchor
    const given = new URLSearchParams(hash);
    for (const model of models.values()) {
      const state = {};
      let named = false;
      for (const name of model.lasting) {
        state[name] = model.start[name];
        const value = given.get(`${model.id}.${name}`);
        if (value === null) continue;
        named = true;
        state[name] = typeof state[name] === "number" && /^-?\d{1,15}$/.test(value)
          ? Number(value) : value;
      }
      const changed = model.lasting.some((name) => state[name] !== model.get(name));
      if (changed) {
        model.adopt(state); // hostile values are cleaned by Python, the answer brings them
        if (!model.get("answer")) model.stale(true);
      }
      if (named || changed) ask(model);
    }
  }

  let pushing;
  function remember() {
    clearTimeout(pushing);
    pushing = setTimeout(() => {
      const hash = fragment();
      if (hash !== location.hash.slice(1)) {
        history.pushState(null, "", hash ? `#${hash}` : location.pathname + location.search);
      }
    }, 500);
  }

  function tell(text) {
    for (const mount of mounts) {
      const line = document.createElement("p");
      line.className = "mxlab-notice";
      line.textContent = text;
      mount.prepend(line);
    }
  }

  async function start() {
    if (location.protocol === "file:") {
      tell("This page was opened from a file, where explorers cannot run. Serve the folder, "
        + "for example with: python -m http.server");
      return;
    }
    const [face, css] = await Promise.all([
      import(new URL("face.mjs", base)),
      fetch(new URL("face.css", base)).then((reply) => reply.text()),
    ]);
    for (const mount of mounts) {
      const model = makeModel(mount, css);
      models.set(mount.id, model);
      const place = document.createElement("div");
      place.className = "mxlab-live";
      mount.prepend(place);
      face.default.render({ model, el: place });
      if (model.bare) for (const still of mount.getElementsByClassName("mxlab-static")) still.hidden = true;
      const wake = () => { if (!model.get("answer") && !model.get("dead")) ask(model); };
      mount.addEventListener("focusin", wake);
      mount.addEventListener("pointerdown", wake);
    }
    addEventListener("popstate", restore);
    restore();
  }
  start().catch((error) => tell(`The explorer could not be loaded (${error.message}). `
    + "The picture and table below are still right."));
})();
