"""The weights of a live ``torch.nn.Module``; torch itself is not imported."""

from collections.abc import Iterator
from typing import Any

from mxlab.errors import InputError
from mxlab.models.model import Model, Stored

#: leaves that a router's bare (experts, hidden) parameter has
_ROUTERS = ("gate", "router")


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(int(size) for size in getattr(value, "shape", ()))


def _ancestry(module: Any) -> set[str]:
    return {cls.__name__ for cls in type(module).__mro__}


def _own(path: str, module: Any) -> Iterator[Stored]:
    """Yield the weights that one module holds itself."""
    names = _ancestry(module)
    weight = _shape(getattr(module, "weight", None))
    leaf = path.rpartition(".")[2]
    if len(weight) == 2:
        if "Conv1D" in names:  # transformers' GPT-2 keeps (K, N)
            yield Stored(path, weight[1], weight[0])
        elif names & {"Linear", "Embedding"} or leaf in _ROUTERS:
            yield Stored(path, *weight)
    for name, value in module.named_parameters(recurse=False):
        shape = _shape(value)
        if len(shape) == 3 and name.endswith("_proj"):
            experts, n, k = shape
            if getattr(module, "is_transposed", False):
                n, k = k, n
            yield Stored(f"{path}.{name}" if path else name, n, k, experts)


def module_model(module: Any) -> Model:
    """Return the config and the weights of a module tree: any with ``named_modules``.

    Only names, shapes and ``module.config`` are looked at. Raises InputError for a tree without
    linears.
    """
    stored = tuple(weight for path, part in module.named_modules() for weight in _own(path, part))
    if not stored:
        raise InputError(
            f"{type(module).__name__} has no linear: expected a torch.nn.Module of one"
        )
    to_dict = getattr(getattr(module, "config", None), "to_dict", None)
    config = dict(to_dict()) if callable(to_dict) else {}
    if config:
        config["architectures"] = [type(module).__name__]
    return Model(kind="module", config=config, stored=stored)
