"""Reference pages of what one calls, command line and API, and of what built this site."""

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path

import mxlab
from book.site.markdown import code, plain, table
from mxlab.cli import VERBS, _parser

#: heading -> what it is for, and names that autodoc imports
API: dict[str, tuple[str, tuple[str, ...]]] = {
    "One code, one block": (
        "Standard library alone.",
        ("decode", "encode", "scale_byte", "quantize_block"),
    ),
    "Arrays": (
        "NumPy, or torch tensors where torch is installed.",
        ("quantize", "dequantize", "interleave", "deinterleave", "MXArray", "gemm"),
    ),
    "Layouts": (
        "Standard library alone.",
        (
            "layout",
            "layout.ScaleLayout",
            "layout_batched.batched",
            "layout_notation.cute",
            "layout_notation.bases",
            "layout_notation.cut_every",
        ),
    ),
    "Libraries and devices": (
        "Standard library alone.",
        ("profiles.profiles", "profiles.get_profile", "profiles.LibraryProfile", "hardware.gpu"),
    ),
    "Models and guards": (
        "Standard library alone.",
        ("shapes", "doctor", "explain", "matrix", "check", "Deployment", "CallFacts"),
    ),
    "Errors": ("", ("InputError",)),
}
#: packages whose version decides what a notebook shows
PACKAGES = (
    "numpy", "ml_dtypes", "torch", "triton", "torchao", "anywidget", "ipywidgets", "matplotlib",
    "jupyter-book", "Sphinx", "sphinx-book-theme", "myst-nb",
)  # fmt: skip


def cli_page() -> list[str]:
    """Return a section for each verb: its line, and its own help."""
    lines = table(
        ["verb", "what it answers"],
        [(f"[{code(verb)}](#verb-{verb})", plain(says)) for verb, says in VERBS.items()],
    )
    width = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "96"  # argparse wraps at the terminal's width, and a build has none
    try:
        for verb, says in VERBS.items():
            lines += [
                f"(verb-{verb})=",
                f"## {code('mxlab ' + verb)}",
                "",
                f"{plain(says[0].upper() + says[1:])}.",
                "",
                "````text",
                _parser(verb).format_help().rstrip(),
                "````",
                "",
            ]
    finally:
        os.environ.pop("COLUMNS")
        if width is not None:
            os.environ["COLUMNS"] = width
    return lines


def api_page() -> list[str]:
    """Return the directives that print the docstrings of the public names."""
    lines: list[str] = []
    for heading, (says, names) in API.items():
        lines += [f"## {heading}", "", *([says, ""] if says else [])]
        for name in names:
            kind = "class" if name.rpartition(".")[2][0].isupper() else "function"
            kind = "exception" if name.endswith("Error") else kind
            lines += ["```{eval-rst}", f".. auto{kind}:: mxlab.{name}"]
            lines += ["   :members:"] * (kind == "class") + ["```", ""]
    return lines


def status_page() -> list[str]:
    """Return what the site was built with: mxlab's commit, Python, machine, packages."""
    rows = [
        ("mxlab", f"{mxlab.__version__}{_commit()}"),
        ("Python", platform.python_version()),
        ("system", f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"),
        ("GPU", _gpu()),
        *((name, _version(name)) for name in PACKAGES),
    ]
    return table(["what", "version"], [(plain(name), plain(said)) for name, said in rows])


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def _commit() -> str:
    asked = ["git", "log", "-1", "--format=%h of %cs"]
    try:
        done = subprocess.run(asked, cwd=Path(__file__).parent, capture_output=True, text=True)
    except OSError:
        return ""
    return f", commit {done.stdout.strip()}" if done.returncode == 0 else ""


def _gpu() -> str:
    try:
        import torch
    except ImportError:
        return "none looked for: no torch"
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "none"
