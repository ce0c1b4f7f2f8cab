"""Checks of the Triton MXFP8 kernel that older SGLang releases had: people still search for them.

The kernel was the default of dense MXFP8 on SM100 and SM120 and is gone in 0.5.23, so these rows
never trip; each says what the older check would have made of the layer.
"""

from collections.abc import Callable

from mxlab.guards.engine import Finding, Guard
from mxlab.guards.facts import Facts, LinearFacts, Platform
from mxlab.guards.findings import modulo, passes
from mxlab.guards.linear import linear_of, not_mxfp8
from mxlab.guards.rows import FP8_UTILS, VERSION, row

_GONE = f"no Triton MXFP8 kernel in {VERSION}"


def _rows(n: int) -> int:
    """Return the tile's rows that the kernel chose for N."""
    return 256 if n % 256 == 0 else 128


def _old(would: Callable[[LinearFacts, Platform], str]) -> Callable[[Facts], Finding]:
    def check(facts: Facts) -> Finding:
        found = would(linear_of(facts), facts.platform)
        return not_mxfp8(facts) or passes(f"{_GONE}; {found}")

    return check


def _gone(
    id: str,
    error: str,
    text: str,
    would: Callable[[LinearFacts, Platform], str],
    predicate: str,
    related: tuple[str, ...],
) -> Guard:
    return row(
        id,
        "linear",
        "S8",
        error,
        text,
        _old(would),
        predicate=f"in releases before the kernel was removed: {predicate}",
        hardware="SM100, SM120, with an older SGLang",
        meaning="An older SGLang multiplied dense MXFP8 with a Triton kernel, which this check "
        "belongs to. Newer ones use FlashInfer or DeepGEMM and do not have it.",
        fixes=(f"upgrade to SGLang {VERSION} or newer",),
        source=f"{FP8_UTILS} of releases before 002ed7e4, removed since",
        related=related,
    )


GUARDS: tuple[Guard, ...] = (
    _gone(
        "old-triton-hw",
        "RuntimeError",
        "MXFP8 dense linear requires Blackwell GPUs (SM100/SM120).",
        lambda lin, p: f"SM100 {p.sm100}, SM120 {p.sm120}",
        "neither SM100 nor SM120",
        ("fwd-unsupported",),
    ),
    _gone(
        "old-triton-k",
        "AssertionError",
        "k={k} must be divisible by 128 for MXFP8",
        lambda lin, p: modulo("K", lin.k, 128),
        "K % 128 != 0",
        ("fwd-fi-k32", "wsp-deepgemm"),
    ),
    _gone(
        "old-triton-n",
        "AssertionError",
        "n={n} must be divisible by {bn}",
        lambda lin, p: modulo("N", lin.n, _rows(lin.n)),
        "N % 128 != 0 (the tile had 256 rows where N % 256 == 0)",
        ("fi-mm-min", "wsp-deepgemm"),
    ),
    _gone(
        "old-triton-pack",
        "AssertionError",
        "k_groups={g} must be divisible by 4 (K must be multiple of 128)",
        lambda lin, p: modulo("K / 32", lin.k // 32, 4),
        "K / 32 % 4 != 0",
        ("old-triton-k",),
    ),
    _gone(
        "old-triton-scale",
        "AssertionError",
        "MXFP8 input_scale must be UE8M0 uint8.",
        lambda lin, p: "scales were looked at in the call",
        "the input's scale, or the weight's, is not uint8",
        ("g95-dot-wdtype",),
    ),
)
