"""``mxlab explore``: an explorer's view as text or JSON, the same that the page shows."""

import argparse
from textwrap import wrap

from mxlab.cli.result import Result, table
from mxlab.errors import InputError, choose, quote
from mxlab.explorers import explorer
from mxlab.explorers.controls import AnyControl, Choice, Int, Numbers, State, number
from mxlab.explorers.panels import AnyPanel, Drawing, Facts, Grid, Item, Verdicts, View, said

EXAMPLES = """examples:
  mxlab explore will_it_run
  mxlab explore will_it_run gpu=h200 k=7392 tp=2 --json
  mxlab explore guard:kv-hd32 head_dim=96"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the explorer's name and its settings."""
    parser.add_argument("name", help="will_it_run")
    parser.add_argument(
        "settings", nargs="*", default=[], metavar="control=value", help="e.g. gpu=h200"
    )


def run(args: argparse.Namespace) -> Result:
    """Return the view; exit code 1 when the answer is that this stops."""
    record = explorer(args.name)
    controls = {control.name: control for control in record.controls}
    state = record.defaults()
    for setting in args.settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise InputError(f"{quote(setting)}: expected control=value, such as gpu=h200")
        state[name] = _value(choose("control", name, controls), value)
    view = record.view(state)
    data = {"explorer": record.name, "state": state, "view": view.to_json()}
    return Result(data, _text(record.title, state, view), int(view.status == "stops"))


def _value(control: AnyControl, value: str) -> int | str:
    """Return the value of a control; unlike a permalink, a command is not mended."""
    if isinstance(control, Choice):
        return choose(control.name, value, {name: name for name, _ in control.options})
    clean = control.clean(value)
    if isinstance(control, Numbers):
        parts = value.replace(",", " ").split()
        bad = [part for part in parts if number(part) is None]
        if bad or not 0 < len(parts) <= control.count:
            found = quote(bad[0]) if bad else f"{len(parts)} numbers"
            raise InputError(f"{control.name} has {found}: expected 1 to {control.count} numbers")
    if isinstance(control, Int) and str(clean) != value.strip().lstrip("+"):
        near = f"; the nearest is {clean}" if clean != control.default else ""
        raise InputError(
            f"{control.name} is {quote(value)}: expected {control.low} to {control.high}{near}"
        )
    return clean


def _text(title: str, state: State, view: View) -> str:
    settings = " ".join(f"{name}={value}" for name, value in state.items())
    parts = [f"{title}  {settings}", f"{view.sign} {view.answer}"]
    parts += [f"{panel.title}\n{_panel(panel)}" for panel in view.panels]
    return "\n\n".join(parts)


def _panel(panel: AnyPanel) -> str:
    if isinstance(panel, Verdicts):
        return "\n".join(line for run in panel.runs() for line in _run(run))
    if isinstance(panel, Facts):
        return table(("", "", ""), panel.rows).lstrip("\n")
    if isinstance(panel, Drawing):
        return "\n".join(wrap(panel.alt, 96))
    return _grid(panel)


def _run(run: tuple[Item, ...]) -> list[str]:
    """Return the lines of one verdict, or of a fold of quiet ones."""
    first = run[0]
    if first.quiet:
        names = ", ".join(item.name for item in run)
        return [f"{first.stage + ' ':<4}{said(run)}:", *_wrapped(names)]
    lines = [f"{first.stage + ' ':<4}{first.sign} {first.status:<12}{first.name}"]
    texts = [first.because, first.message, *(f"{what}: {text}" for what, text in first.notes)]
    return lines + [line for text in texts if text for line in _wrapped(text)]


def _wrapped(text: str) -> list[str]:
    return wrap(text, 96, initial_indent=" " * 6, subsequent_indent=" " * 8, break_on_hyphens=False)


def _grid(panel: Grid) -> str:
    wanted = panel.sample or tuple(range(len(panel.rows)))
    rows = [[panel.rows[r], *(text for text, _, _ in panel.cells[r])] for r in wanted]
    left = len(panel.rows) - len(wanted)
    note = f"\n{left} of {len(panel.rows)} rows are left out; --json has them." if left else ""
    head = [panel.corner, *panel.columns]
    return table(head, rows, right=" ".join(head)) + note
