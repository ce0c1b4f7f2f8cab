"""More families with routed experts, each held to its class in transformers 5.24.0."""

from mxlab.models.attention import Gqa
from mxlab.models.family import Family
from mxlab.models.layer_sets import after_dense, after_num_dense, every, within_range, without
from mxlab.models.mla import Mla
from mxlab.models.mlp import DenseMlp, Experts
from mxlab.models.output_gate import GatedOutput

_DERIVED = Gqa(derive_head_dim=True, layers=every)
_STRICT = Gqa(layers=every)
_DEEPSEEK = (
    DenseMlp(layers=without(after_dense)),
    Experts(layers=after_dense, count="n_routed_experts", shared="shared_experts"),
)
_COUNTED = (
    DenseMlp(layers=without(after_dense)),
    Experts(layers=after_dense, shared="shared_experts", shared_count="num_shared_experts"),
)


def _all_experts(
    name: str,
    architecture: str,
    *,
    count: str = "num_experts",
    module: str = "mlp",
    also: tuple[str, ...] = (),
) -> Family:
    """Return a family of which every layer has experts as wide as ``intermediate_size``."""
    experts = Experts(layers=every, count=count, width="intermediate_size", module=module)
    return Family(
        name=name,
        architectures=(architecture, *also),
        model_types=(name,),
        parts=(_DERIVED, experts),
    )


MOE_MORE: tuple[Family, ...] = (
    _all_experts("olmoe", "OlmoeForCausalLM"),
    _all_experts("flex_olmo", "FlexOlmoForCausalLM"),
    _all_experts(
        "granitemoe",
        "GraniteMoeForCausalLM",
        count="num_local_experts",
        module="block_sparse_moe",
    ),
    _all_experts(
        "phimoe",
        "PhimoeForCausalLM",
        count="num_local_experts",
        module="block_sparse_moe",
        also=("PhiMoEForCausalLM",),
    ),
    Family(
        name="glm4_moe_lite",
        attention_dp=True,
        architectures=("Glm4MoeLiteForCausalLM",),
        model_types=("glm4_moe_lite",),
        parts=(Mla(), *_DEEPSEEK),
    ),
    Family(
        name="mistral4",
        architectures=("Mistral4ForCausalLM",),
        model_types=("mistral4",),
        parts=(Mla(), *_DEEPSEEK),
    ),
    Family(
        name="dots1",
        architectures=("Dots1ForCausalLM",),
        model_types=("dots1",),
        parts=(_DERIVED, *_DEEPSEEK),
    ),
    Family(
        name="exaone_moe",
        attention_dp=True,
        architectures=("ExaoneMoeForCausalLM", "ExaoneMoEForCausalLM"),
        model_types=("exaone_moe",),
        parts=(_DERIVED, *_COUNTED),
    ),
    Family(
        name="hy_v3",
        architectures=("HYV3ForCausalLM",),
        model_types=("hy_v3",),
        parts=(_STRICT, *_COUNTED),
    ),
    Family(
        name="solar_open",
        architectures=("SolarOpenForCausalLM",),
        model_types=("solar_open",),
        parts=(
            _STRICT,
            Experts(layers=every, count="n_routed_experts", shared="shared_experts"),
        ),
    ),
    Family(
        name="ernie4_5_moe",
        architectures=("Ernie4_5_MoeForCausalLM",),
        model_types=("ernie4_5_moe",),
        parts=(
            _DERIVED,
            DenseMlp(layers=without(within_range)),
            Experts(
                layers=within_range,
                count="moe_num_experts",
                shared="shared_experts",
                shared_count="moe_num_shared_experts",
            ),
        ),
        tied=True,
    ),
    Family(
        name="afmoe",
        architectures=("AfmoeForCausalLM",),
        model_types=("afmoe",),
        parts=(
            _STRICT,
            GatedOutput(),
            DenseMlp(layers=without(after_num_dense)),
            Experts(
                layers=after_num_dense,
                router="router.gate",
                shared="shared_experts",
                shared_count="num_shared_experts",
            ),
        ),
    ),
)
