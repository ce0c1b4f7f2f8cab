"""SGLang's guards, in the order in which SGLang meets them."""

from mxlab.guards import (
    sglang_attention,
    sglang_block,
    sglang_block_scale,
    sglang_config,
    sglang_conversion,
    sglang_dispatch,
    sglang_divide,
    sglang_expert_calls,
    sglang_expert_gaps,
    sglang_experts,
    sglang_fa4,
    sglang_forward,
    sglang_gemm_input,
    sglang_gfx95,
    sglang_gfx95_linear,
    sglang_host_pool,
    sglang_kv_args,
    sglang_kv_cache,
    sglang_kv_scales,
    sglang_kv_store,
    sglang_linear,
    sglang_load,
    sglang_no_fp8,
    sglang_npu,
    sglang_other_configs,
    sglang_prologue,
    sglang_prologue_cuda,
    sglang_quantizers,
    sglang_removed,
    sglang_runners,
    sglang_server,
    sglang_server_fp4,
    sglang_silent,
)
from mxlab.guards.engine import Guard
from mxlab.guards.rows import VERSION

#: within a stage, SGLang meets them in this order: a layer's GEMM, its attention, its experts
_TABLES = (
    sglang_forward,
    sglang_gfx95_linear,
    sglang_gemm_input,
    sglang_quantizers,
    sglang_prologue,
    sglang_prologue_cuda,
    sglang_kv_args,
    sglang_kv_scales,
    sglang_kv_cache,
    sglang_attention,
    sglang_fa4,
    sglang_kv_store,
    sglang_host_pool,
    sglang_server_fp4,
    sglang_server,
    sglang_dispatch,
    sglang_config,
    sglang_other_configs,
    sglang_divide,
    sglang_linear,
    sglang_block,
    sglang_conversion,
    sglang_block_scale,
    sglang_load,
    sglang_silent,
    sglang_experts,
    sglang_runners,
    sglang_expert_calls,
    sglang_gfx95,
    sglang_no_fp8,
    sglang_expert_gaps,
    sglang_npu,
    sglang_removed,
)

#: every row; a stable sort keeps the order within a stage
GUARDS: tuple[Guard, ...] = tuple(
    sorted((guard for table in _TABLES for guard in table.GUARDS), key=lambda guard: guard.stage)
)

__all__ = ["GUARDS", "VERSION"]
