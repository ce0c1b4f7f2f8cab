// Compiles the page's Python once, here, in the Python that will run it: imports of plain sources
// took 1.4 s of a cold start, of these 0.45 s. Arguments: a zip of sources, and where to put one of
// bytecode, the same bytes each time. Driven by tools/site_assets.py.

import { readFileSync, writeFileSync } from "node:fs";
import { loadPyodide } from "pyodide";

const python = await loadPyodide({
  // a set in bytecode is in hash order; columns for tracebacks would double the zip
  env: { PYTHONHASHSEED: "0", PYTHONNODEBUGRANGES: "1" },
});
python.FS.writeFile("/sources.zip", new Uint8Array(readFileSync(process.argv[2])));
python.runPython(`
import zipfile
from importlib._bootstrap_external import _code_to_hash_pyc
from importlib.util import source_hash

with (
    zipfile.ZipFile("/sources.zip") as sources,
    zipfile.ZipFile("/compiled.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as compiled,
):
    for entry in sources.infolist():
        name, data = entry.filename, sources.read(entry)
        if name.endswith(".py"):
            code = compile(data, name, "exec", dont_inherit=True)
            name, data = name + "c", bytes(_code_to_hash_pyc(code, source_hash(data), False))
        made = zipfile.ZipInfo(name, entry.date_time)
        made.compress_type = zipfile.ZIP_DEFLATED
        made.external_attr = entry.external_attr
        compiled.writestr(made, data)
`);
writeFileSync(process.argv[3], python.FS.readFile("/compiled.zip"));
