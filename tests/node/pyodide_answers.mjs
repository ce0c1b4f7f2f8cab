// Answers states in Pyodide, as the published page does: reads {zip, states} from standard input,
// writes a list of answers. Driven by tests/test_explorers_pyodide.py.

import { readFileSync } from "node:fs";
import { loadPyodide } from "pyodide";

const { zip, name, states } = JSON.parse(readFileSync(0, "utf8"));
const python = await loadPyodide();
python.FS.writeFile("/mxlab.zip", new Uint8Array(readFileSync(zip)));
python.runPython("import sys; sys.path.insert(0, '/mxlab.zip')");
const answer = python.runPython("from mxlab.explorers import answer; answer");
process.stdout.write(JSON.stringify(states.map((state) => answer(name, state))));
