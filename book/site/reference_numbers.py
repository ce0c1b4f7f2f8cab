"""Reference pages of the tables that hold numbers: library profiles, layouts, devices."""

import base64
from dataclasses import replace
from html import escape

from book.site.markdown import code, plain, table
from mxlab.explorers import explorer
from mxlab.explorers.panels import Grid
from mxlab.explorers.picture import picture
from mxlab.hardware import ALIASES, GPUS, Gpu
from mxlab.layout import LAYOUTS
from mxlab.layout_notation import bases, cut_every, cute
from mxlab.profiles import LibraryProfile, profiles

#: the matrix of scales that the layouts page draws: ragged in both directions
DRAWN = {"rows": 40, "k": 320, "at": "9,2"}
#: the one whose numbers it gives, and a whole one
RAGGED, WHOLE = (300, 10), (256, 8)


def profiles_page() -> list[str]:
    """Return a section for each library: what its modes do, and where each was read."""
    by_library: dict[str, list[LibraryProfile]] = {}
    for row in profiles().values():
        by_library.setdefault(row.library, []).append(row)
    lines = [f"{len(profiles())} profiles of {len(by_library)} libraries.", ""]
    for library, rows in by_library.items():
        lines += [f"## {plain(library)}", ""]
        lines += table(
            ["profile", "rule", "zero block", "32 times 2^-133", "Inf among 1.0", "NaN among 1.0"],
            [
                (
                    code(row.id),
                    plain(row.rule),
                    *(plain(row.policies[name]) for name in ("zero", "tiny", "inf", "nan")),
                )
                for row in rows
            ],
        )
        lines += [f"* {_sources(row)}" for row in rows] + [""]
    return lines


def _sources(row: LibraryProfile) -> str:
    note = f" {plain(row.note[0].upper() + row.note[1:])}." if row.note else ""
    runs = len(row.vectors)
    held = f" It reproduces {runs} recorded run{'s' * (runs != 1)} byte for byte." if runs else ""
    return (
        f"{code(row.id)}: version {plain(row.version)}; {code(row.source)}; {plain(row.obtained)}. "
        f"Inputs: {plain(row.dtypes)}; elements: {plain(row.rounding)}.{note}{held}"
    )


def layouts_page() -> list[str]:
    """Return a section for each layout: picture, closed form, notations, padding, source."""
    lines: list[str] = []
    for name, row in LAYOUTS.items():
        padded = row.padded(*RAGGED)
        cut = cut_every(name, *WHOLE)
        lines += [
            f"## {code(name)}",
            "",
            f"{plain(row.summary[0].upper() + row.summary[1:])}.",
            "",
            "```{raw} html",
            _picture(name),
            "```",
            "",
            *table(
                ["what", "says"],
                [
                    ("offset of (r, c) in bytes", code(row.formula)),
                    ("bytes of a scale", str(row.itemsize)),
                    ("tile", " x ".join(map(str, row.tile)) + " scales"),
                    (f"CuTe layout of {_by(WHOLE)}", code(cute(name, *WHOLE))),
                    (f"bit bases of {_by(WHOLE)}", _bases(name)),
                    (
                        f"{_by(RAGGED)} scales",
                        f"padded to {_by(padded)}: {row.nbytes(*RAGGED):,} bytes, "
                        f"{row.padding_fraction(*RAGGED):.1%} padding",
                    ),
                    ("one scale", f"{row.nbytes(1, 1):,} bytes"),
                    ("can be cut between rows", f"every {cut}" if cut else "nowhere"),
                    ("source", plain(row.source)),
                ],
            ),
        ]
        if row.params:
            given = ", ".join(f"{code(key)} (here {value})" for key, value in row.params.items())
            lines += [f"Parameters: {given}.", ""]
    return lines


def _by(sides: tuple[int, int]) -> str:
    return f"{sides[0]} x {sides[1]}"


def _bases(name: str) -> str:
    found = bases(name, *WHOLE)
    if found is None:
        return "none: a stride is no power of two, or bits carry"
    return "; ".join(f"{axis} {code(str(listed))}" for axis, listed in found.items())


def _picture(name: str) -> str:
    """Return the buffer as an image, by the explorer: each byte with its row and column."""
    found = explorer("scale_layout")
    view = found.view(found.clean({**DRAWN, "scale_layout": name}))
    grids = tuple(panel for panel in view.panels if isinstance(panel, Grid) and panel.drawn)
    svg = picture(name, replace(view, panels=grids))
    alt = " ".join([view.answer, *(panel.alt for panel in grids)])
    data = base64.b64encode(svg.encode()).decode()
    return (
        f'<img class="mxlab-picture" loading="lazy" alt="{escape(alt)}" '
        f'src="data:image/svg+xml;base64,{data}">'
    )


def devices_page() -> list[str]:
    """Return the table of GPUs and the other names that are understood."""
    by_source: dict[str, list[Gpu]] = {}
    for gpu in GPUS.values():
        by_source.setdefault(gpu.source, []).append(gpu)
    lines: list[str] = []
    for source, gpus in by_source.items():
        lines += table(
            ["name", "GPU", "compiler's name", "capability", "MX block scaling", "toolkit assumed"],
            [
                (
                    code(gpu.name),
                    plain(gpu.label),
                    code(gpu.arch) if gpu.arch else "none",
                    ".".join(map(str, gpu.capability)) if gpu.arch else "none",
                    "native" if gpu.native_mx else "none: emulated",
                    _toolkit(gpu),
                )
                for gpu in gpus
            ],
        )
        lines += [f"Source: {plain(source)}.", ""]
    names = ", ".join(f"{code(alias)} ({code(name)})" for alias, name in ALIASES.items())
    return [*lines, f"Other names, and the GPU that stands for each: {names}.", ""]


def _toolkit(gpu: Gpu) -> str:
    kinds = {"nvidia": "CUDA", "amd": "ROCm"}
    return f"{kinds[gpu.vendor]} {gpu.toolkit}" if gpu.vendor in kinds else "none"
