"""The table of families, and the lookup: architectures[0], then model_type.

Names, required keys and what an absent key means are those of the config classes of transformers
5.24.0; module names those of SGLang 0.5.23. The tables are imported one by one until one has the
architecture: most of a command's start-up would go into recipes that it never reads.
"""

from collections.abc import Iterator
from functools import cache
from importlib import import_module

from mxlab.errors import InputError
from mxlab.models.config import Section
from mxlab.models.family import Family

_TABLES: tuple[tuple[str, str], ...] = (
    ("families_dense", "DENSE"),
    ("families_moe", "MOE"),
    ("families_hybrid", "HYBRID"),
    ("families_multimodal", "MULTIMODAL"),
    ("families_dense_more", "DENSE_MORE"),
    ("families_moe_more", "MOE_MORE"),
    ("families_gemma", "GEMMA"),
    ("families_hybrid_more", "HYBRID_MORE"),
    ("families_moe_new", "MOE_NEW"),
    ("families_dense_old", "DENSE_OLD"),
    ("families_remote", "REMOTE"),
    ("families_text", "TEXT"),
    ("families_encoders", "ENCODERS"),
)


@cache
def _table(place: int) -> tuple[Family, ...]:
    module, name = _TABLES[place]
    rows: tuple[Family, ...] = getattr(import_module(f"mxlab.models.{module}"), name)
    return rows


def families() -> Iterator[Family]:
    """Yield every family; a table is imported when its first row is asked for."""
    for place in range(len(_TABLES)):
        yield from _table(place)


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
    the result is the family of that type. A model that wraps a known decoder has the decoder's.

    >>> find_family(Section({"architectures": ["Qwen3ForCausalLM"]})).name
    'qwen3'
    """
    architecture, model_type = identify(config)
    found = None
    if architecture:
        found = next((row for row in families() if architecture in row.architectures), None)
    if found is None and model_type:
        found = next((row for row in families() if model_type in row.model_types), None)
    if found is None:
        from mxlab.models.wrapped import wrapped_family

        found = wrapped_family(config, find_family)
    return found
