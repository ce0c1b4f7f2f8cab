"""What a person hands over as a model: a config, stored weights, or both."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from mxlab.errors import InputError, quote, whole_number
from mxlab.models.config import MAX_SIZE, read_config, read_file, refuse_source

if TYPE_CHECKING:
    import torch

#: what shapes() and doctor() take
Source = Union[str, Path, Mapping[str, Any], "Model", "torch.nn.Module"]

#: linears that one command line may name
MAX_LINEARS = 1_000


@dataclass(frozen=True, slots=True)
class Stored:
    """A weight as it lies in a checkpoint or a live module, before any rank takes its share.

    ``n`` and ``k`` are logical output and input features, None where only the name is known.
    ``experts`` is the leading size of a stack of experts.
    """

    module: str
    n: int | None = None
    k: int | None = None
    experts: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A config ({} where there is none) and the weights whose real shapes are known.

    ``kind`` says where the weights come from: config, headers, index (names only), module (live)
    or linears (typed in). ``partial`` is true where other weights exist that nobody looked at.
    """

    kind: str = "config"
    config: Mapping[str, Any] = field(default_factory=dict)
    stored: tuple[Stored, ...] = ()
    partial: bool = False
    notes: tuple[str, ...] = ()


def read_model(source: Source) -> Model:
    """Return the model behind whatever names it; no tensor data is read.

    ``source`` is a config.json, a folder (its config.json, its index and the headers of its
    shards), a safetensors index, one .safetensors file, the name of a model that mxlab ships, the
    parsed config, or a live ``torch.nn.Module`` (the meta device will do). Raises InputError.

    >>> read_model("Llama-3.1-8B").kind
    'config'
    """
    if isinstance(source, Model):
        return source
    if isinstance(source, Mapping):
        return Model(config=dict(source))
    if callable(getattr(source, "named_modules", None)):
        from mxlab.models.live import module_model

        return module_model(source)
    if not isinstance(source, str | Path):
        refuse_source(source)
    path = Path(source)
    try:
        there = bool(str(source).strip()) and path.exists()  # "" is not the current folder
        folder = there and path.is_dir()
    except (OSError, ValueError):  # a name too long for the file system; a NUL in it
        there = folder = False
    if not there:
        return Model(config=read_config(source))
    if folder or ".safetensors" in path.name:
        from mxlab.models.headers import headers_model

        return headers_model(path)
    config = read_file(path)
    if isinstance(config.get("weight_map"), Mapping) and "model_type" not in config:
        raise InputError(
            f"{quote(path.name)} is a safetensors index by its weight_map: expected its name to "
            "end in .safetensors.index.json"
        )
    return Model(config=config)


def linears_model(rows: Sequence[Sequence[object]]) -> Model:
    """Return a model of nothing but the linears given as (N, K) or (name, N, K).

    One without a name is what one rank holds, whole; a conventional name (``down_proj``) says how
    it is split. Raises InputError.

    >>> linears_model([(2880, 4096), ("down_proj", 4096, 14336)]).stored[1].module
    'down_proj'
    """
    if not 0 < len(rows) <= MAX_LINEARS:
        raise InputError(f"{len(rows)} linears: expected 1 to {MAX_LINEARS}")
    stored: list[Stored] = []
    for count, row in enumerate(rows, 1):
        named = len(row) == 3
        if len(row) not in (2, 3) or (named and not isinstance(row[0], str)):
            raise InputError(f"linear {count} is {quote(list(row))}: expected N K or NAME N K")
        name = str(row[0]) if named else f"linear{count}"
        if not name.isprintable() or not 0 < len(name) <= 200:
            raise InputError(f"linear {count} is named {quote(name)}: expected 1 to 200 letters")
        if any(name == other.module for other in stored):
            raise InputError(f"two linears are named {quote(name)}: expected one of each name")
        n, k = (
            whole_number(f"{axis} of {name}", value, 1, MAX_SIZE)
            for axis, value in zip("NK", row[-2:], strict=True)
        )
        stored.append(Stored(name, n, k))
    return Model(kind="linears", stored=tuple(stored))
