"""explain: what a piece of a message tells, over a table that the test brings and the real one."""

from mxlab.explain import explain
from mxlab.explain_table import every_message
from mxlab.guards.engine import Guard

GUARDS = every_message()


def stand_in(*messages: str, id: str = "own") -> Guard:
    first = GUARDS[0]
    return Guard(
        **{
            **{name: getattr(first, name) for name in first.__dataclass_fields__},
            "id": id,
            "error": "RuntimeError",
            "predicate": "",
            "messages": messages,
        }
    )


def test_a_short_message_must_stand_alone() -> None:
    table = [stand_in("dims % head_dim"), stand_in(id="silent")]
    for text in ("RuntimeError: Failed at /x/a.cuh:405: dims % head_dim", "dims % head_dim\nx"):
        assert [m.guard.id for m in explain(text, table).matches] == ["own"]
    for text in ("the dims % head_dim of it", "assert dims % head_dims", "kv_dims % head_dim"):
        assert explain(text, table).matches == ()


def test_a_longer_word_is_another_word() -> None:
    table = [stand_in("dims must tile the 32-element scale blocks")]
    for word, count in (("dims", 1), ("kv_dims", 0)):
        text = f"AssertionError: {word} must tile the 32-element scale blocks"
        assert len(explain(text, table).matches) == count
        assert len(explain(f"{text}2", table).matches) == 0


def test_what_many_messages_share_tells_nothing() -> None:
    shared = "the weight of this layer cannot be served by"
    table = [stand_in(f"{shared} kernel number {n}{n}{n}", id=f"g{n}") for n in range(5)]
    assert [m.guard.id for m in explain(f"{shared} kernel number 333", table).matches] == ["g3"]
    found = explain(shared, table)
    assert found.matches == () and len(found.nearest) == 3
    assert [m.guard.id for m in explain(shared, table[:3]).matches] == ["g0", "g1", "g2"]


def test_a_flag_is_no_fragment() -> None:
    assert explain("--fp8-gemm-backend=flashinfer_cutlass").matches == ()
    assert explain("SGLANG_FLASHINFER_MEGAMOE_COMBINE_DTYPE=bf16 is set").matches == ()


def test_signs_that_json_escapes() -> None:
    text = r"MXFP8 requires n \u003e= 128 and k \u003e= 128 for CUTLASS MXFP8. got m=1, n=2, k=3."
    matches = explain(text).matches
    assert [m.guard.id for m in matches] == ["fi-mm-min", "fi-mm-tile"]
    assert all(match.values == {"m": 1, "n": 2, "k": 3} for match in matches)


def test_one_text_of_two_checks_gives_both() -> None:
    table = [stand_in("this text belongs to two checks, k={k}", id=id) for id in ("one", "two")]
    found = explain("this text belongs to two checks, k=3", table)
    assert [(m.guard.id, m.values) for m in found.matches] == [("one", {"k": 3}), ("two", {"k": 3})]
