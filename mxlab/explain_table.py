"""Every message of every version of every system: what an error text is held to by default."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from mxlab.guards.engine import Guard
from mxlab.guards.systems import IDS, versions


@cache
def every_message() -> tuple[Guard, ...]:
    """Return the rows of the newest versions, then older versions' rows with their other texts.

    An older row keeps only the messages that the newer row of its id has no more. Source of the
    rows: ``System.source``.

    >>> len({row.system for row in every_message()}) > 5
    True
    """
    return tuple(row for id in IDS for row in _of_system(id))


def _of_system(id: str) -> Iterator[Guard]:
    said: dict[str, set[str]] = {}
    for known in versions(id):
        for row in known.guards:
            if row.id not in said:
                yield row
            elif other := tuple(text for text in row.messages if text not in said[row.id]):
                yield replace(row, messages=other)
            said.setdefault(row.id, set()).update(row.messages)


@cache
def holders(guard: str, system: str) -> tuple[str, ...]:
    """Return the versions of a system that have a row of this id, the newest first.

    >>> holders("imp-flashinfer", "sglang")
    ('0132848349',)
    """
    return tuple(
        known.version for known in versions(system) if any(row.id == guard for row in known.guards)
    )
