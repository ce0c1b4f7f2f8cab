"""What a family of models is to mxlab: a row that says how its config becomes linears."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from mxlab.models.build import Build
from mxlab.models.config import Section
from mxlab.models.kv_cache import KvCache


class Part(Protocol):
    """One part of a decoder layer: attention, MLP, experts."""

    def lay_out(self, build: Build) -> KvCache | None:
        """Add the part's rows to the build; return the KV cache where the part keeps one."""


class Encoder(Protocol):
    """A vision tower beside the decoder."""

    def lay_out(self, build: Build, vision: Section | None) -> None:
        """Add the tower's rows from ``vision_config``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One recipe.

    ``architectures`` and ``model_types`` are the names in a config that select it. ``nested`` is
    the key of the object that holds the decoder's sizes when the config has it. ``keys`` translates
    the field's names to the family's own. ``tied`` is what an absent ``tie_word_embeddings`` means.
    ``block`` and ``head`` are module names of SGLang 0.5.23.
    """

    name: str
    architectures: tuple[str, ...]
    model_types: tuple[str, ...] = ()
    parts: tuple[Part, ...]
    block: str = "model.layers.{layer}."
    head: str | None = "lm_head"  # None where the model has no output over a vocabulary
    nested: str | None = None
    keys: Mapping[str, str] = field(default_factory=dict)
    tied: bool = False
    vision: Encoder | None = None
    unknown: tuple[str, ...] = ()  # what the recipe leaves out, and why
    notes: tuple[str, ...] = ()
    aliases: tuple[tuple[str, str], ...] = ()  # other names of stored weights -> the row's
    attention_dp: bool = False  # SGLang's model splits attention over tp / --attn-dp-size ranks
    often_incomplete: bool = False  # configs go round without sizes: unknown, not an error
    unquantized: tuple[str, ...] = ()  # rows whose name starts so have no quantisation config
