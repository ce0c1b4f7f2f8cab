"""From a config.json to the linears of one rank."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from mxlab.errors import InputError, quote, whole_number
from mxlab.models.build import Build, MissingKeys
from mxlab.models.config import MAX_LAYERS, Section
from mxlab.models.families import find_family, identify
from mxlab.models.family import Family
from mxlab.models.kv_cache import KvCache
from mxlab.models.linear import Linear
from mxlab.models.mlp import lay_out_head
from mxlab.models.model import Model, Source, read_model
from mxlab.models.wrapped import inner

if TYPE_CHECKING:
    from mxlab.models.differences import Difference

MAX_RANKS = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Shapes:
    """The linears of one rank, and what was not derived.

    ``loads`` is False when a listed linear cannot be split (``why`` says which number does not
    divide), None when there is no recipe for the model.
    ``vision_only`` is True when only vision rows fail: the encoder can run data-parallel instead.
    ``unknown`` names what was not derived and why, ``derived`` what was not read from the config
    but follows from it, ``notes`` what else a reader should know. ``differences`` says where the
    stored weights contradict the config; the rows then have the stored shapes.
    """

    model_type: str
    architecture: str
    family: str | None
    tp: int
    ep: int
    attn_dp: int
    loads: bool | None
    why: tuple[str, ...]
    vision_only: bool
    layers: tuple[Linear, ...]
    kv: KvCache | None
    unknown: tuple[str, ...]
    derived: tuple[str, ...]
    notes: tuple[str, ...]
    differences: "tuple[Difference, ...]" = ()
    model: Model = field(default_factory=Model)

    @property
    def config(self) -> Mapping[str, Any]:
        """The config that the model came with, {} where it came without one."""
        return self.model.config

    def to_json(self) -> dict[str, Any]:
        """Return the contract's JSON object."""
        return {
            "model_type": self.model_type,
            "architecture": self.architecture,
            "family": self.family,
            "tp": self.tp,
            "ep": self.ep,
            "attn_dp": self.attn_dp,
            "loads": self.loads,
            "why": list(self.why),
            "vision_only": self.vision_only,
            "layers": [row.to_json() for row in self.layers],
            "kv": self.kv.to_json() if self.kv else None,
            "unknown": list(self.unknown),
            "derived": list(self.derived),
            "notes": list(self.notes),
            "source": self.model.kind,
            "differences": [row.to_json() for row in self.differences],
        }


def _check_ranks(tp: int, **sizes: int) -> None:
    whole_number("tp", tp, 1, MAX_RANKS)
    for name, size in sizes.items():
        whole_number(name, size, 1, MAX_RANKS)
        if tp % size:
            divisors = [n for n in range(1, tp + 1) if tp % n == 0]
            near = min(divisors, key=lambda n: (abs(n - size), n))
            raise InputError(
                f"{name} is {size}: expected a divisor of tp = {tp}; the nearest is {near}"
            )


def _tied(config: Section, decoder: Section, default: bool) -> bool:
    """Tell whether the output head is the embedding; the outer config decides where it says so."""
    for key in ("tie_word_embeddings", "tie_embedding"):  # the latter is LFM2's
        for section in (config, decoder):
            written = section.flag(key)
            if written is not None:
                return written
    return default


def _mtp_notes(decoder: Section) -> list[str]:
    """Return what is left out: layers that only speculative decoding builds."""
    keys = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules")
    return [
        f"{decoder.at(key)} = {count}: multi-token-prediction layers are not listed"
        for key in keys
        if (count := decoder.whole(key, 0, MAX_LAYERS))
    ]


#: kind of row -> why SGLang 0.5.23 never quantises it
_UNQUANTIZED_KINDS = {
    "router": "SGLang builds routers without a quantisation config",
    "lm_head": "SGLang's quantisation methods take linears and experts, not the output head",
}


def _mark_unquantized(family: Family | None, row: Linear) -> Linear:
    why = row.unquantized or _UNQUANTIZED_KINDS.get(row.kind, "")
    if not why and family and family.unquantized and row.linear.startswith(family.unquantized):
        why = f"SGLang builds this linear of {family.name} without a quantisation config"
    return replace(row, unquantized=why) if why else row


def _derive(
    family: Family, config: Section, tp: int, ep: int, attn_dp: int = 1
) -> tuple[Build, KvCache | None]:
    decoder = inner(config, family.nested) or config
    build = Build(config=decoder, tp=tp, ep=ep, block=family.block, keys=family.keys)
    if attn_dp > 1 and family.attention_dp:
        build.attn_dp = attn_dp
    elif attn_dp > 1:
        build.notes.append(
            f"attn_dp = {attn_dp} changes nothing: SGLang's model for {family.name} splits "
            "attention over all TP ranks"
        )
    caches: list[KvCache] = []
    try:
        build.per_layer("layer_types")
        for part in family.parts:
            cache = part.lay_out(build)
            if cache is not None:
                caches.append(cache)
        if family.head is not None:
            lay_out_head(build, family.head, tied=_tied(config, decoder, family.tied))
    except InputError:
        build.check_complete(family.name)  # a placeholder for a missing key may have been refused
        raise
    build.check_complete(family.name)
    if family.vision:
        family.vision.lay_out(build, config.section("vision_config"))
    build.unknown.extend(family.unknown)
    build.notes.extend((*family.notes, *_mtp_notes(decoder)))
    if ep > 1 and not any(row.kind == "moe" for row in build.rows):
        build.notes.append(f"ep = {ep} changes nothing: no layer has routed experts")
    return build, caches[0] if caches else None


#: what nearly every config says; named when it is absent from one without a recipe
_BASIC_SIZES = (
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "vocab_size",
)


def _unknown_layers(config: Section, architecture: str, model_type: str) -> tuple[str, ...]:
    """Return what can be said about a model without a recipe: nothing, layer by layer."""
    why = f"no recipe for {quote(architecture or model_type)}"
    if architecture and model_type:
        why += f" (model_type {quote(model_type)})"
    decoder = config.section("text_config") or config
    absent = [decoder.at(key) for key in _BASIC_SIZES if decoder.get(key) is None]
    lacks = (f"config lacks {', '.join(absent)}",) if absent else ()
    depth = decoder.whole("num_hidden_layers", 1, MAX_LAYERS)
    if depth is None:
        return (f"every layer and the output head ({why})", *lacks)
    return (
        f"layers 0-{depth - 1}: attention ({why})",
        f"layers 0-{depth - 1}: mlp or experts ({why})",
        f"output head ({why})",
        *lacks,
    )


def _from_weights(
    model: Model, section: Section, family: Family | None, build: Build | None, tp: int, ep: int
) -> "tuple[Build, KvCache | None, tuple[Difference, ...]] | None":
    """Hold the stored weights against what was derived, or take them where nothing was."""
    if not model.stored:
        return None
    from mxlab.models.stored import compared, derived_by_name

    if family is None or build is None:
        found = derived_by_name(model, section, tp, ep)
        return (*found, ()) if found else None
    whole = build if tp == ep == 1 else _derive(family, section, 1, 1)[0]
    return build, None, compared(model, family, build, tuple(whole.rows))


def shapes(source: Source, tp: int = 1, ep: int = 1, attn_dp: int = 1) -> Shapes:
    """Return the effective shape of every linear of a model on one rank.

    ``source`` is what `read_model` takes. ``tp`` ranks share a linear, ``tp / ep`` the width of
    one expert, ``tp / attn_dp`` one attention (SGLang's rules). Shapes are (N, K) = (output, input)
    features. Raises InputError for a config that is not one, a missing or impossible size, and
    sizes of TP that cannot be. A linear that does not divide stays as a row with ``invalid``.
    Source: SGLang 0.5.23 and vLLM 0.33.0.

    >>> [(row.linear, row.n, row.k) for row in shapes("Llama-3.1-8B", tp=8).layers][:2]
    [('qkv_proj', 768, 4096), ('o_proj', 4096, 512)]
    """
    _check_ranks(tp, ep=ep, attn_dp=attn_dp)
    model = read_model(source)
    section = Section(model.config)
    architecture = model_type = ""
    if not model.stored or section.get("architectures") or section.get("model_type"):
        architecture, model_type = identify(section)
    for key in ("text_config", "vision_config"):
        section.section(key)  # refuses a list or a string there, whatever the family
    family = find_family(section) if architecture or model_type else None
    if family is not None:
        family = _without_head(family, architecture)
    build: Build | None = None
    cache: KvCache | None = None
    notes = model.notes
    unknown: tuple[str, ...] = ()
    if family is not None:
        try:
            build, cache = _derive(family, section, tp, ep, attn_dp)
        except MissingKeys as error:
            if model.stored:
                notes += (f"{error}: the stored weights are read by their names",)
                family = None
            elif not family.often_incomplete:
                raise
            else:
                unknown = (f"every layer and the output head ({error})",)
    differences: tuple[Difference, ...] = ()
    held = _from_weights(model, section, family, build, tp, ep)
    if held is not None:
        build, by_name, differences = held
        cache = cache or by_name
    if build is None:
        unknown = unknown or _unknown_layers(section, architecture, model_type)
        build = Build(config=section, tp=tp, ep=ep, block="", unknown=list(unknown))
    elif family is not None and architecture and _by_type(family, architecture, model_type):
        build.notes.append(
            f"no recipe for architecture {quote(architecture)}: read as its model_type "
            f"{quote(model_type)}"
        )
    rows = [_mark_unquantized(family, row) for row in build.rows]
    broken = [row for row in rows if row.invalid]
    return Shapes(
        model_type=model_type,
        architecture=architecture,
        family=family.name if family else None,
        tp=tp,
        ep=ep,
        attn_dp=attn_dp,
        loads=not broken if rows else None,
        why=tuple(sorted({row.invalid for row in broken if row.invalid})),
        vision_only=bool(broken) and all(row.linear.startswith("visual.") for row in broken),
        layers=tuple(rows),
        kv=cache,
        unknown=tuple(build.unknown),
        derived=tuple(build.derived),
        notes=(*notes, *build.notes),
        differences=differences,
        model=model,
    )


#: how the names of classes end that give an embedding, a score or a label and no token
_HEADLESS = ("Model", "Classification", "QuestionAnswering", "Retrieval")
_GENERATING = ("LMHeadModel", "ChatModel", "LMModel")


def _without_head(family: Family, architecture: str) -> Family:
    """Return the family without its output head where the class is a known body of another use."""
    known = architecture in family.architectures or architecture.endswith(_GENERATING)
    if family.head is None or family.nested or known or not architecture.endswith(_HEADLESS):
        return family
    note = f"{quote(architecture)} has no output head over the vocabulary; a head of its own is not"
    return replace(family, head=None, notes=(*family.notes, f"{note} listed"))


def _by_type(family: Family, architecture: str, model_type: str) -> bool:
    """Tell whether only the model_type named the family."""
    return architecture not in family.architectures and model_type in family.model_types


def tp_that_load(source: Source, limit: int = 64) -> tuple[int, ...]:
    """Return the TP sizes in ``1..limit`` at which every linear divides.

    >>> tp_that_load("phi-4", 16)
    (1, 2, 5, 10)
    """
    model = read_model(source)
    return tuple(tp for tp in range(1, limit + 1) if shapes(model, tp).loads)
