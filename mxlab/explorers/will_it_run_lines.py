"""Verdicts as lines of "Will it run?": signs, notes, the sentence for the whole."""

from collections.abc import Sequence
from dataclasses import replace

from mxlab.explorers.panels import Item, Verdicts
from mxlab.guards import GUARDS, STAGES, Guard, Status, Verdict

#: status -> (sign, word): the status without its colour
SIGNS = {
    Status.PASSES: ("✓", "passes"),
    Status.STOPS: ("✕", "stops"),
    Status.FALLS_BACK: ("↷", "falls back"),
    Status.WARNS: ("!", "warns"),
    Status.SILENT: ("⚠", "silent"),
    Status.NOT_REACHED: ("–", "not reached"),
    Status.UNKNOWN: ("?", "unknown"),
}

_ROWS: dict[str, Guard] = {guard.id: guard for guard in GUARDS}


def line(verdict: Verdict, where: str = "") -> Item:
    """Return one verdict as a line; ``where`` names what it is about, where that is not plain."""
    guard = _ROWS.get(verdict.guard)
    said = verdict.status not in (Status.PASSES, Status.NOT_REACHED)
    notes = [("means", guard.meaning), ("instead", guard.fallback)] if guard and said else []
    notes += [("fix", fix) for fix in verdict.fixes]
    return Item(
        status=verdict.status,
        sign=SIGNS[verdict.status][0],
        name=verdict.guard,
        stage=verdict.stage,
        because=f"{where}: {verdict.because}" if where else verdict.because,
        message=verdict.message,
        notes=tuple(note for note in notes if note[1] and note != ("instead", "none")),
        href=f"book/guards/{verdict.guard}.html" if guard else "",
        quiet=not said,
        notice=verdict.notice,
    )


def more(item: Item, *notes: tuple[str, str]) -> Item:
    """Return a line with notes in front of its own."""
    return replace(item, notes=(*(note for note in notes if note[1]), *item.notes))


def conclusion(items: Sequence[Item]) -> tuple[str, str, str]:
    """Return status, sign and the sentence for all lines together."""
    for status, start in (
        (Status.STOPS, "Stops"),
        (Status.UNKNOWN, "Not known"),
        (Status.SILENT, "Runs, but silently wrong or slow"),
        (Status.FALLS_BACK, "Runs, but falls back"),
        (Status.WARNS, "Runs, with a warning"),
    ):
        found = [item for item in items if item.status == status and not item.notice]
        if found:
            first = found[0]
            behind = f" {len(found) - 1} more behind it." if len(found) > 1 else ""
            where = f"{first.stage} ({STAGES[first.stage]})"
            because = first.because
            if status == Status.FALLS_BACK:
                because = because.partition("; ")[0]  # what replaces it stands in its line
            sentence = f"{start} at {where}: {first.name}, {because}.{behind}"
            return status, SIGNS[status][0], sentence
    asked = sum(item.status == Status.PASSES for item in items)
    said = f"all {asked} guards on the way pass"
    notices = [item.name for item in items if item.notice]
    if notices:
        logs = "logs" if len(notices) == 1 else "log"
        said = f"{asked} guards on the way pass, and {' and '.join(notices)} only {logs} a line"
    return Status.PASSES, SIGNS[Status.PASSES][0], f"Runs: {said}."


def counts(items: Sequence[Item]) -> str:
    """Return how many lines there are of each status, in words."""
    found = [
        f"{sum(item.status == status for item in items)} {word}"
        for status, (_, word) in SIGNS.items()
        if any(item.status == status for item in items)
    ]
    return ", ".join(found)


def guards(items: Sequence[Item], title: str) -> Verdicts:
    """Return the panel of verdicts in the order in which they are met."""
    return Verdicts(
        id="guards",
        title=title,
        alt=f"{len(items)} guards: {counts(items)}." if items else "No guard was asked.",
        items=tuple(items),
    )
