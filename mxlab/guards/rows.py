"""What the rows of the SGLang tables have in common."""

from collections.abc import Callable

from mxlab.guards.engine import Finding, Guard
from mxlab.guards.facts import Facts

VERSION = "0.5.23"
FP8 = "srt/layers/quantization/fp8.py"
FP8_UTILS = "srt/layers/quantization/fp8_utils.py"
POOL = "srt/mem_cache/memory_pool.py"
MODEL_CONFIG = "srt/configs/model_config.py"

ALL_GPUS = "every GPU"
NONE = "none"


def row(
    id: str,
    subject: str,
    stage: str,
    error: str,
    messages: str | tuple[str, ...],
    check: Callable[[Facts], Finding],
    *,
    predicate: str,
    meaning: str,
    fixes: tuple[str, ...],
    source: str,
    hardware: str = ALL_GPUS,
    fallback: str = NONE,
    related: tuple[str, ...] = (),
) -> Guard:
    """Return one row of SGLang's table; ``source`` is a file and line of its package."""
    package = "flashinfer_python 0.7.2" if source.startswith("flashinfer") else f"sglang {VERSION}"
    return Guard(
        id=id,
        system="sglang",
        subject=subject,
        stage=stage,
        error=error,
        messages=(messages,) if isinstance(messages, str) else messages,
        predicate=predicate,
        hardware=hardware,
        meaning=meaning,
        fallback=fallback,
        fixes=fixes,
        source=f"{package}, {source}",
        related=related,
        check=check,
    )
