"""Put what the published site serves itself into book/_static/vendor, before jupyter-book runs.

Python for the browser is a zip of the standard-library part of mxlab, compiled; it and the face
lie in a folder named by the hash of their contents, so that any cache header is safe. Pyodide and
MathJax come from node_modules (``npm ci``).
"""

import hashlib
import io
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
STATIC = ROOT / "mxlab" / "explorers" / "static"
VENDOR = ROOT / "book" / "_static" / "vendor"
MODULES = ROOT / "node_modules"

PYODIDE = (
    "pyodide.mjs",
    "pyodide.asm.mjs",
    "pyodide.asm.wasm",
    "python_stdlib.zip",
    "pyodide-lock.json",
)

#: parts of the package that need more than the standard library, or that no page asks for
LEFT_OUT = (
    "arrays.py",
    "attention/",
    "bench/",
    "cli/",
    "exercises/puzzles.py",
    "explorers/static/",
    "explorers/figures.py",
    "explorers/widget.py",
    "gemm/",
    "kernels/",
    "parallel/",
)
#: of these parts, what needs the standard library alone
KEPT = ("attention/__init__.py", "attention/order.py", "attention/pages.py")


def package_zip(package: Path) -> bytes:
    """Return the package and its tables as a zip with the same bytes for the same sources."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in sorted([*package.rglob("*.py"), *package.glob("data/*.json")]):
            name = path.relative_to(package).as_posix()
            if name.startswith(LEFT_OUT) and name not in KEPT:
                continue
            entry = zipfile.ZipInfo(f"mxlab/{name}", (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, path.read_bytes())
    return buffer.getvalue()


def compiled(sources: bytes) -> bytes:
    """Return a zip of sources as one of bytecode for Pyodide's Python, made by it under Node."""
    node = shutil.which("node")
    if node is None:
        raise SystemExit("site_assets: node is missing; npm ci and this need it")
    with tempfile.TemporaryDirectory() as folder:
        plain, made_there = Path(folder, "sources.zip"), Path(folder, "compiled.zip")
        plain.write_bytes(sources)
        script = ROOT / "tools" / "compile_zip.mjs"
        subprocess.run([node, script, plain, made_there], check=True)
        made = made_there.read_bytes()
    with zipfile.ZipFile(io.BytesIO(made)) as archive:
        names = {name.replace(".pyc", ".py") for name in archive.namelist()}
    with zipfile.ZipFile(io.BytesIO(sources)) as archive:
        if names != {*archive.namelist()}:
            raise SystemExit("site_assets: the compiled zip holds other modules than the sources")
    return made


def build(vendor: Path = VENDOR) -> str:
    """Write all assets; return the name of the hashed folder."""
    for needed in ("pyodide", "mathjax"):
        if not (MODULES / needed).is_dir():
            raise SystemExit(f"site_assets: node_modules/{needed} is missing; run: npm ci")
    pyodide = "pyodide-" + json.loads((MODULES / "pyodide/package.json").read_text())["version"]
    files = {
        path.name: path.read_bytes() for path in sorted(STATIC.glob("*")) if path.suffix != ".js"
    }
    sources = package_zip(ROOT / "mxlab")
    digest = hashlib.sha256(pyodide.encode() + (ROOT / "tools/compile_zip.mjs").read_bytes())
    digest.update(hashlib.sha256(sources).digest())
    for name in sorted(files):
        digest.update(name.encode() + hashlib.sha256(files[name]).digest())
    folder = f"mxlab-{digest.hexdigest()[:10]}"
    files["mxlab.zip"] = compiled(sources)

    shutil.rmtree(vendor, ignore_errors=True)
    for name, data in files.items():
        _write(vendor / folder / name, data)
    boot = (STATIC / "mxlab-boot.js").read_text(encoding="utf-8")
    boot = boot.replace("mxlab-HASH", folder).replace("PYODIDE/", f"{pyodide}/")
    _write(vendor / "mxlab-boot.js", boot.encode())
    for name in PYODIDE:
        _copy(MODULES / "pyodide" / name, vendor / pyodide / name)
    mathjax = MODULES / "mathjax" / "es5"
    _copy(mathjax / "tex-mml-chtml.js", vendor / "mathjax" / "tex-mml-chtml.js")
    for font in (mathjax / "output/chtml/fonts/woff-v2").iterdir():
        _copy(font, vendor / "mathjax/output/chtml/fonts/woff-v2" / font.name)
    return folder


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


if __name__ == "__main__":
    print(f"site_assets: {build()}", file=sys.stderr)
