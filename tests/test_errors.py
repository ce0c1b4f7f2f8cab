"""One line of bad input: it names the value, what was expected, the nearest, and stays short."""

import pytest

from mxlab.errors import InputError, choose
from mxlab.guards import guard
from mxlab.hardware import gpu


def test_a_short_table_is_listed() -> None:
    with pytest.raises(InputError) as refused:
        gpu("h20O")
    assert "a100" in str(refused.value) and str(refused.value).endswith("did you mean 'h20'?")


def test_a_long_table_is_not_recited() -> None:
    """480 ids on one line hide the nearest one."""
    with pytest.raises(InputError) as refused:
        guard("wsp-deepgem")
    line = str(refused.value)
    assert line.startswith("unknown guard 'wsp-deepgem': expected one of 4") and len(line) < 200
    assert line.endswith("; did you mean 'wsp-deepgemm'?")


@pytest.mark.parametrize("count, listed", [(60, True), (61, False)])
def test_where_the_list_ends(count: int, listed: bool) -> None:
    table = {f"name{i:03}": i for i in range(count)}
    with pytest.raises(InputError) as refused:
        choose("thing", 5, table)
    assert (f"name{count - 1:03}" in str(refused.value)) is listed
    assert "name000, name001, name002" in str(refused.value)
