"""vLLM's tables, two releases: 0.33.0, and 0.29.0, which checks a kernel's minimum too late."""

import re
from dataclasses import replace

from mxlab.guards import vllm_linear, vllm_model
from mxlab.guards.engine import Guard
from mxlab.guards.vllm_kernels import BACKENDS, NEW, OLD, SELECT, Release

FUNCTIONS = {SELECT: BACKENDS}
SOURCE = "the wheel on PyPI, Python sources, read 2026-11"


def guards(release: Release) -> tuple[Guard, ...]:
    """Return the rows of one release, in the order in which a server meets them.

    >>> {row.stage for row in guards(OLD) if row.id == "vllm-mx-minimum"}
    {'S8'}
    """
    rows = (*vllm_model.guards(release), *vllm_linear.guards(release))
    if release is not NEW:  # the line numbers are the new release's
        rows = tuple(replace(row, source=re.sub(r":\d+", "", row.source)) for row in rows)
    return tuple(sorted(rows, key=lambda row: row.stage))


VERSIONS = (NEW, OLD)
