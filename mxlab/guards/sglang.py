"""SGLang's guards, in the order in which SGLang meets them."""

from mxlab.guards import (
    sglang_attention,
    sglang_block,
    sglang_config,
    sglang_experts,
    sglang_forward,
    sglang_gfx95,
    sglang_kv_cache,
    sglang_linear,
    sglang_no_fp8,
    sglang_prologue,
    sglang_runners,
    sglang_server,
    sglang_silent,
)
from mxlab.guards.engine import Guard
from mxlab.guards.rows import VERSION

#: within a stage, SGLang meets them in this order: a layer's GEMM, its attention, its experts
_TABLES = (
    sglang_forward,
    sglang_prologue,
    sglang_kv_cache,
    sglang_attention,
    sglang_server,
    sglang_config,
    sglang_linear,
    sglang_block,
    sglang_silent,
    sglang_experts,
    sglang_runners,
    sglang_gfx95,
    sglang_no_fp8,
)

#: every row; a stable sort keeps the order within a stage
GUARDS: tuple[Guard, ...] = tuple(
    sorted((guard for table in _TABLES for guard in table.GUARDS), key=lambda guard: guard.stage)
)

__all__ = ["GUARDS", "VERSION"]
