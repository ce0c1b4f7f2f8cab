"""DeepGEMM's guards of each release, in the order in which one call meets them."""

from mxlab.guards import deepgemm_operands, deepgemm_scales
from mxlab.guards.deepgemm_rows import FUNCTIONS, RELEASES, Release
from mxlab.guards.engine import Guard


def table(release: Release) -> tuple[Guard, ...]:
    """Return every row of a release; a stable sort keeps the order within a stage.

    >>> [row.id for row in table(RELEASES[0])][:2]
    ['dg-package', 'dg-device']
    """
    rows = (*deepgemm_operands.guards(release), *deepgemm_scales.guards(release))
    return tuple(sorted(rows, key=lambda row: row.stage))


__all__ = ["FUNCTIONS", "RELEASES", "table"]
