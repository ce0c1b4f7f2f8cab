"""What a cell prints is shown as it was printed, wherever the kernel cut it."""

import inspect
from itertools import combinations, pairwise

import pytest
from myst_nb.core import render  # type: ignore[import-untyped]

from book.site import mxlab_book, streams

PRINTED = "TP 1\n  runs\n\nTP 8\n  stops, at K % 32 = 16\n"


def _stream(text: str, name: str = "stdout") -> dict[str, str]:
    return {"output_type": "stream", "name": name, "text": text}


def test_where_the_kernel_cut_it_makes_no_difference() -> None:
    places = range(1, len(PRINTED))
    for cuts in [*combinations(places, 1), *combinations(places, 2)]:
        ends = [0, *cuts, len(PRINTED)]
        pieces = [PRINTED[a:b] for a, b in pairwise(ends)]
        assert "".join(pieces) == PRINTED and len(pieces) > 1
        (made,) = streams.join([_stream(piece) for piece in pieces])
        assert made["text"] == PRINTED, pieces


def test_other_outputs_stay_and_streams_stay_apart() -> None:
    picture = {"output_type": "display_data"}
    made = streams.join([_stream("a"), picture, _stream("!", "stderr"), _stream("b\n")])
    assert {output.get("name"): output.get("text") for output in made} == {
        "stdout": "ab\n",
        None: None,
        "stderr": "!\n",
    }
    assert streams.join([]) == []


def test_the_book_uses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render, "coalesce_streams", None)
    streams.install()
    assert render.coalesce_streams is streams.join
    assert "streams.install()" in inspect.getsource(mxlab_book.setup)
