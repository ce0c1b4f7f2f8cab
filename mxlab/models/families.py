"""The table of families, and the lookup: architectures[0], then model_type.

Names, required keys and what an absent key means are those of the config classes of transformers
5.24.0; module names those of SGLang 0.5.23.
"""

from mxlab.errors import InputError
from mxlab.models.config import Section
from mxlab.models.families_dense import DENSE
from mxlab.models.families_dense_more import DENSE_MORE
from mxlab.models.families_encoders import ENCODERS
from mxlab.models.families_gemma import GEMMA
from mxlab.models.families_hybrid import HYBRID
from mxlab.models.families_moe import MOE
from mxlab.models.families_moe_more import MOE_MORE
from mxlab.models.families_multimodal import MULTIMODAL
from mxlab.models.family import Family

FAMILIES: tuple[Family, ...] = (
    *DENSE,
    *DENSE_MORE,
    *MOE,
    *MOE_MORE,
    *HYBRID,
    *GEMMA,
    *MULTIMODAL,
    *ENCODERS,
)

_BY_ARCHITECTURE = {name: family for family in FAMILIES for name in family.architectures}
_BY_MODEL_TYPE = {name: family for family in FAMILIES for name in family.model_types}


def identify(config: Section) -> tuple[str, str]:
    """Return (architectures[0], model_type), each "" when absent; InputError when both are.

    >>> identify(Section({"model_type": "llama"}))
    ('', 'llama')
    """
    architectures = config.words("architectures") or ()
    model_type = config.text("model_type") or ""
    architecture = architectures[0] if architectures else ""
    if not architecture and not model_type:
        raise InputError(
            "config has neither architectures nor model_type: expected a Hugging Face config.json"
        )
    return architecture, model_type


def find_family(config: Section) -> Family | None:
    """Return the recipe for a config, or None when the table has none.

    An architecture that is written decides; model_type is asked only where it is unknown, and then
    the result is the family of that type.

    >>> find_family(Section({"architectures": ["Qwen3ForCausalLM"]})).name
    'qwen3'
    """
    architecture, model_type = identify(config)
    return _BY_ARCHITECTURE.get(architecture) or _BY_MODEL_TYPE.get(model_type)
