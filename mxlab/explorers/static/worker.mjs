// The page's one worker: Pyodide with mxlab. Messages in {id, name, state, picture}, out
// {ready: warm or cold}, {id, json}, {id, svg} or {fatal}. Started with #<folder of pyodide>;
// everything else lies beside this file.

import { makeRoom, recall, remember } from "./snapshot.mjs";

const fatal = (error) => postMessage({ fatal: `${error?.message ?? error}`.slice(0, 300) });
addEventListener("unhandledrejection", (event) => fatal(event.reason)); // Pyodide does not reject
addEventListener("error", (event) => fatal(event.message));

const here = new URL("./", import.meta.url);
const SNAPSHOT = new URL("snapshot", here).href; // the folder's name holds the hash
const indexURL = new URL(decodeURIComponent(location.hash.slice(1)), here).href;

async function start() {
  // throws at once where a CSP forbids wasm; Pyodide would wait for ever
  new WebAssembly.Module(Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0));
  const zip = fetch(new URL("mxlab.zip", here)).then((reply) => {
    if (!reply.ok) throw new Error(`mxlab.zip: HTTP ${reply.status}`);
    return reply.arrayBuffer();
  }).then((bytes) => new Uint8Array(bytes));
  const [{ loadPyodide }, memory] = await Promise.all([
    import(`${indexURL}pyodide.mjs`), recall(SNAPSHOT)]);
  let python, made;
  if (memory) {
    try { // a snapshot holds memory, not files
      makeRoom(memory.length);
      python = await loadPyodide({ indexURL, _loadSnapshot: memory });
      python.FS.writeFile("/mxlab.zip", await zip);
    } catch {
      python = undefined;
    }
  }
  if (!python) {
    python = await loadPyodide({ indexURL, _makeSnapshot: true });
    python.FS.writeFile("/mxlab.zip", await zip);
    python.runPython("import sys; sys.path.insert(0, '/mxlab.zip')\n"
      + "from importlib import import_module\n"
      + "from mxlab.explorers import EXPLORERS, FAMILIES, picture\n"
      + "for name in (*EXPLORERS, *FAMILIES.values()): import_module(f'mxlab.explorers.{name}')");
    try {
      made = python.makeMemorySnapshot(); // before any proxy exists
    } catch { /* a newer Pyodide without snapshots */ }
  }
  const [answer, drawn] = python.runPython(
    "from mxlab.explorers import answer, drawn; [answer, drawn]");
  onmessage = ({ data }) => {
    try {
      postMessage(data.picture ? { id: data.id, svg: drawn(data.name, data.state) }
        : { id: data.id, json: answer(data.name, data.state) });
    } catch (error) { // Python itself broke, as a reader's own code can make it
      fatal(`${error?.message ?? error}`.trim().split("\n").pop());
      return;
    }
    if (made) {
      remember(SNAPSHOT, made);
      made = undefined;
    }
  };
  postMessage({ ready: memory && !made ? "warm" : "cold" });
}

start().catch(fatal);
