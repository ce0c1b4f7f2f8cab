"""A view as HTML that needs no script: the picture, the verdicts, the tables.

This is what a notebook saves and what the published page shows until Python runs; the element is
also the mount point of the face. Untrusted notebooks keep it: no inline SVG, no style sheet, no
``data-`` attribute is needed to read it. Tags stand on lines of their own, because the book's
search index simply removes them and would glue words together.
"""

import base64
import json
from typing import Any

from mxlab.explorers.controls import shown
from mxlab.explorers.panels import Drawing, Facts, Grid, Item, Verdicts, View, said
from mxlab.explorers.picture import clean, picture
from mxlab.explorers.protocol import Explorer

#: the most cells of one table
MOST_CELLS = 256
_MOST_COLUMNS = 3  # of a table that fits a phone
_LEGIBLE = 700  # pixels of 760: the smallest letters, 9 of them, stay above 8
_LONG = 200  # characters of one setting: a pasted log is not repeated


def still(explorer: Explorer, state: object, mount: str) -> str:
    """Return the HTML of an explorer at ``state``, to be mounted at the id ``mount``.

    >>> from mxlab.explorers import explorer
    >>> "<img" in still(explorer("will_it_run"), {}, "here")
    True
    """
    given = explorer.clean(state)
    tidy = {c.name: c.default if c.private else given[c.name] for c in explorer.controls}
    data: dict[str, Any] = {"name": explorer.name, "spec": explorer.spec(), "state": tidy}
    if not explorer.controls:
        data = {}  # nothing to set: the page starts no face here
    attributes = "".join(
        f' data-{key}="{clean(value if isinstance(value, str) else _json(value))}"'
        for key, value in data.items()
    )
    parts = [
        f'<div class="mxlab-explorer" id="{clean(mount)}"{attributes}>',
        '<div class="mxlab-static">',
        f'<p class="mxlab-head">\n<strong>{clean(explorer.title)}</strong>\n'
        f"{clean(explorer.question)}\n</p>",
    ]
    if explorer.bare:
        parts += [f"<p>\n{clean(explorer.bare)}\n</p>", "</div>", "</div>"]
        return "\n".join(parts)
    view = explorer.view(tidy)
    parts += [
        f"<p>\n<strong>{clean(view.sign)} {clean(view.answer)}</strong>\n</p>",
        f'<p class="mxlab-head">\n{_settings(explorer, tidy)}\n</p>',
        _image(explorer, view),
    ]
    for panel in view.panels:
        if isinstance(panel, Verdicts):
            parts.append(_verdicts(panel))
        elif isinstance(panel, Facts):
            parts.append(_facts(panel))
        elif isinstance(panel, Grid):
            parts.append(_grid(panel))
    parts += ["</div>", "</div>"]
    return "\n".join(part for part in parts if part)


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _settings(explorer: Explorer, state: dict[str, int | str]) -> str:
    pairs = ((c.label, str(state[c.name])) for c in shown(explorer.controls, state))
    short = ((label, text if len(text) <= _LONG else text[:_LONG] + "...") for label, text in pairs)
    words = ",\n".join(f"{clean(label)}&nbsp;= {clean(text)}" for label, text in short)
    return f"Settings: {words}."


def _image(explorer: Explorer, view: View) -> str:
    svg = picture(explorer.title, view)
    source = base64.b64encode(svg.encode()).decode()
    drawn = [
        p.alt
        for p in view.panels
        if isinstance(p, Verdicts | Drawing) or (isinstance(p, Grid) and p.drawn)
    ]
    alt = clean(" ".join([view.answer, *drawn]))
    return (  # on a phone it scrolls in its box: shrunken, its words could not be read
        f'<div class="mxlab-wide" tabindex="0" role="group" aria-label="{clean(explorer.title)}" '
        'style="overflow-x: auto">\n'
        f'<img alt="{alt}" src="data:image/svg+xml;base64,{source}" '
        f'style="width: 100%; min-width: {_LEGIBLE}px; max-width: 760px; height: auto">\n</div>'
    )


def _verdicts(panel: Verdicts) -> str:
    lines = "\n".join(_fold(run) if run[0].quiet else _item(run[0]) for run in panel.runs())
    return _titled(panel.title, panel.alt) + f"\n<ul>\n{lines}\n</ul>"


def _fold(run: tuple[Item, ...]) -> str:
    names = ",\n".join(f"<code>{clean(item.name)}</code>" for item in run)
    return f"<li>\n{clean(run[0].stage)} {clean(said(run))}:\n{names}\n</li>"


def _item(item: Item) -> str:
    message = f"<br>\n<code>{clean(item.message)}</code>" if item.message else ""
    fixes = "".join(f"<br>\nfix: {clean(text)}" for what, text in item.notes if what == "fix")
    return (
        f"<li>\n{clean(item.stage)} {clean(item.sign)} <strong>{clean(item.status)}</strong>\n"
        f"<code>{clean(item.name)}</code>\n{clean(item.because)}\n{message}{fixes}\n</li>"
    )


def _facts(panel: Facts) -> str:
    rows = "\n".join(
        f'<tr>\n<th scope="row">{clean(name)}</th>\n<td>{clean(value)}</td>\n'
        f"<td>{clean(how)}</td>\n</tr>"
        for name, value, how in panel.rows
    )
    return _titled(panel.title, panel.alt) + f"\n<table>\n<tbody>\n{rows}\n</tbody>\n</table>"


def _grid(panel: Grid) -> str:
    """Return the sampled rows, or the first ones; a grid that is drawn needs no table."""
    if panel.drawn and not panel.sample:
        return ""
    most = max(1, MOST_CELLS // len(panel.columns))
    wanted = (panel.sample or tuple(range(len(panel.rows))))[:most]
    head = "\n".join(f'<th scope="col">{clean(name)}</th>' for name in panel.columns)
    body = "\n".join(
        f'<tr>\n<th scope="row">{clean(panel.rows[r])}</th>\n'
        + "\n".join(f"<td>{clean(text) or '&nbsp;'}</td>" for text, _, _ in panel.cells[r])
        + "\n</tr>"
        for r in wanted
    )
    left_out = len(panel.rows) - len(wanted)
    note = f"<p>\n{left_out} of {len(panel.rows)} rows are left out here.\n</p>"
    table = (
        f"<table>\n<thead>\n<tr>\n<td>{clean(panel.corner)}</td>\n{head}\n</tr>\n</thead>\n"
        f"<tbody>\n{body}\n</tbody>\n</table>"
    )
    if len(panel.columns) > _MOST_COLUMNS:  # scrolls beside the page, by keyboard too
        name = clean(panel.title)
        box = f'<div class="mxlab-wide" tabindex="0" role="group" aria-label="{name}">'
        table = f"{box}\n{table}\n</div>"
    return f"{_titled(panel.title, panel.alt)}\n{table}\n{note if left_out else ''}"


def _titled(title: str, alt: str) -> str:
    return f"<p>\n<strong>{clean(title)}</strong>\n<br>\n{clean(alt)}\n</p>"
