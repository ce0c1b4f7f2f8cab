// Answers states in Pyodide, as the published page does: reads {zip, asked: {name: states}} from
// standard input, writes {name: answers}. Driven by tests/test_explorers_pyodide.py.

import { readFileSync } from "node:fs";
import { loadPyodide } from "pyodide";

const { zip, asked } = JSON.parse(readFileSync(0, "utf8"));
const python = await loadPyodide();
python.FS.writeFile("/mxlab.zip", new Uint8Array(readFileSync(zip)));
python.runPython("import sys; sys.path.insert(0, '/mxlab.zip')");
const answer = python.runPython("from mxlab.explorers import answer; answer");
const answers = Object.entries(asked).map(([name, states]) =>
  [name, states.map((state) => answer(name, state))]);
process.stdout.write(JSON.stringify(Object.fromEntries(answers)));
