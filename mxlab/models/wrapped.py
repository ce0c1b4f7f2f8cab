"""A decoder inside a model that has no recipe: vision and audio models wrap well-known decoders.

The decoder's rows follow from its own part of the config; the towers are named as unknown.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from mxlab.errors import quote
from mxlab.models.config import Section
from mxlab.models.family import Family

#: keys under which model classes keep the decoder's config; transformers 5.24.0, SGLang 0.5.23 and
#: the remote code of InternVL, DeepSeek-VL2 and Qwen-Omni
NESTED = ("text_config", "llm_config", "language_config", "thinker_config", "decoder_config")
_DEPTH = 3


def inner(config: Section, path: str | None) -> Section | None:
    """Return the object at a path of keys, None when one of them is absent.

    >>> inner(Section({"thinker_config": {"text_config": {"vocab_size": 8}}}),
    ...       "thinker_config.text_config").whole("vocab_size")
    8
    """
    section: Section | None = config
    for key in path.split(".") if path else ():
        section = section.section(key) if section else None
    return section if path else None


def _decoders(config: Section, *, strict: bool = True) -> list[tuple[str, Section]]:
    """Return (path, section) of what may be the decoder, the innermost first.

    Raises InputError for a value that is no object, unless told not to be ``strict``.
    """
    found: list[tuple[str, Section]] = []
    section, path = config, ""
    for _ in range(_DEPTH):
        key = next((key for key in NESTED if section.get(key) is not None), None)
        if key is None or not (strict or isinstance(section.get(key), Mapping)):
            break
        deeper = section.section(key)
        if deeper is None:
            break
        section, path = deeper, f"{path}.{key}" if path else key
        found.insert(0, (path, section))
    return found


def decoder_part(config: Section) -> Section:
    """Return the part of a config that describes the decoder: the innermost, else the whole.

    >>> decoder_part(Section({"llm_config": {"model_type": "qwen2"}})).at("model_type")
    'llm_config.model_type'
    """
    return next((section for _, section in _decoders(config, strict=False)), config)


def _towers(config: Section, path: str) -> tuple[str, ...]:
    """Return what is left out: every other part that has a config of its own."""
    found = []
    outer, _, last = path.rpartition(".")
    for section in (config, inner(config, outer) if outer else None):
        for key in section.data if section else ():
            part = section.get(key) if section and key.endswith("_config") else None
            if not isinstance(part, Mapping) or key in (*NESTED, "quantization_config"):
                continue
            kind = part.get("model_type")
            said = f": model_type {quote(kind)}" if isinstance(kind, str) else ""
            name = key.removesuffix("_config").replace("_", " ")
            if name.isprintable() and len(name) <= 40 and last:
                found.append(f"{name} (no recipe{said})")
    return tuple(found[:8])


def wrapped_family(config: Section, find: Callable[[Section], Family | None]) -> Family | None:
    """Return the recipe of the decoder in ``config``, None where it has none or none is known."""
    for path, section in _decoders(config):
        if not (section.get("architectures") or section.get("model_type")):
            continue
        family = find(section)
        if family is None:
            continue
        return replace(
            family,
            nested=path,
            vision=None,
            unknown=(*family.unknown, *_towers(config, path)),
            notes=(
                *family.notes,
                f"{path} is read as a {family.name} decoder; what joins it to towers is not listed",
            ),
        )
    return None
