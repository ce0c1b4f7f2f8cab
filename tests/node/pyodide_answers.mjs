// Answers states in Pyodide as a page's second start does, from a memory that had grown: reads
// {zip, asked: {name: states}} from standard input, writes {megabytes, answers: {name: answers}}.
// Driven by tests/test_explorers_pyodide.py.

import { readFileSync } from "node:fs";
import { loadPyodide } from "pyodide";
import { makeRoom } from "../../mxlab/explorers/static/snapshot.mjs";

const { zip, asked } = JSON.parse(readFileSync(0, "utf8"));
const bytes = new Uint8Array(readFileSync(zip));
const first = await loadPyodide({ _makeSnapshot: true });
first.FS.writeFile("/mxlab.zip", bytes);
first.runPython("import sys; sys.path.insert(0, '/mxlab.zip'); import mxlab.explorers\n"
  + "grown = bytearray(8 << 20)");
const memory = first.makeMemorySnapshot();
makeRoom(memory.length);
const python = await loadPyodide({ _loadSnapshot: memory });
python.FS.writeFile("/mxlab.zip", bytes);
const answer = python.runPython("from mxlab.explorers import answer; answer");
const answers = Object.fromEntries(Object.entries(asked).map(([name, states]) =>
  [name, states.map((state) => answer(name, state))]));
process.stdout.write(JSON.stringify({ megabytes: memory.length / 2 ** 20, answers }));
