"""What every form of a report needs: where it comes from, printable text, a file written whole."""

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from shlex import join

from mxlab._version import __version__
from mxlab.errors import InputError, quote
from mxlab.guards import Status, Verdict
from mxlab.guards.systems import system


def clean(text: object) -> str:
    """Return text that terminals, XML 1.0 and UTF-8 can hold: other characters become U+FFFD.

    >>> clean("a\\x00b\\ud800\\n")
    'a\\ufffdb\\ufffd\\n'
    """
    return "".join(
        c if (c.isprintable() and not 0xD800 <= ord(c) <= 0xDFFF) or c in "\t\n" else "\ufffd"
        for c in str(text)
    )


def _now() -> datetime:
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    if epoch.isdigit() and len(epoch) < 12:  # a report that can be made again, byte for byte
        return datetime.fromtimestamp(int(epoch), UTC)
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """The command that made a report, when, and by which mxlab."""

    argv: Sequence[str]
    made: datetime = field(default_factory=_now)

    @property
    def command(self) -> str:
        """The command as a shell takes it."""
        return clean(join(["mxlab", *self.argv]))

    def lines(self, versions: Sequence[str]) -> list[str]:
        """Return the lines under a report."""
        return [
            f"made by: {self.command}",
            f"mxlab {__version__}; guards of {', '.join(versions) or 'no system'}; "
            f"{self.made:%Y-%m-%d %H:%M} UTC",
        ]


def system_name(id: str, version: str) -> str:
    """Return a system as people write it, with the version whose guards answer.

    >>> system_name("sglang", "")
    'SGLang 0.5.23'
    """
    known = system(id, version)
    return f"{known.name} {known.version}"


def said(verdict: Verdict) -> bool:
    """Tell whether a verdict is neither a pass nor unreached."""
    return verdict.status not in (Status.PASSES, Status.NOT_REACHED)


def write_whole(path: str, text: str) -> None:
    """Write a file whole or not at all; raises InputError where it cannot be written.

    It is written beside its place and then moved there, so that a reader of the old file never
    meets half a new one. What was there is replaced; links are followed, and what is no file (a
    pipe, a terminal) is written to.
    """
    if not path or "\0" in path:
        raise InputError(f"--output is {quote(path)}: expected a file name")
    temporary = ""
    try:
        place = Path(path)
        if place.is_dir():
            raise InputError(f"--output is {quote(path)}: it is a folder, expected a file name")
        if place.exists() and not place.is_file():
            place.write_text(text, encoding="utf-8")
            return
        place = Path(os.path.realpath(path))
        mode = place.stat().st_mode & 0o777 if place.exists() else 0o666 & ~_umask()
        handle, temporary = tempfile.mkstemp(dir=place.parent, prefix=".mxlab-")
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        Path(temporary).chmod(mode)
        Path(temporary).replace(place)
    except (OSError, ValueError) as error:
        if temporary:
            Path(temporary).unlink(missing_ok=True)
        if isinstance(error, InputError):
            raise
        reason = getattr(error, "strerror", None) or type(error).__name__
        raise InputError(f"--output {quote(path)} cannot be written: {reason}") from None


def _umask() -> int:
    now = os.umask(0o077)
    os.umask(now)
    return now
