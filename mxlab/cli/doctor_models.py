"""The models that ``mxlab doctor`` is asked about: configs, folders of them, linears typed in."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mxlab.cli.model_input import model_source
from mxlab.errors import InputError, quote
from mxlab.models import Source, read_model

_MAX_CONFIGS = 1_000


@dataclass(frozen=True, slots=True)
class Model:
    """A model as it is called in the answer, and what it was read into."""

    name: str
    source: Source


def _files(given: str) -> list[str]:
    """Return the config files of a folder that is not a model itself; else what was given."""
    try:
        folder = Path(given)
        if not given.strip() or not folder.is_dir() or (folder / "config.json").exists():
            return [given]
        if any(folder.glob("*.safetensors*")):
            return [given]
        found = sorted(str(path) for path in folder.glob("*.json"))
    except (OSError, ValueError):  # a name that no file system takes: the reader says so
        return [given]
    return found or [given]


def models_of(configs: Sequence[str], linears: list[list[str]]) -> list[Model]:
    """Return the models asked about, read; raise InputError naming the one that cannot be."""
    if linears or not configs:
        source = model_source(configs[0] if configs else None, linears)
        return [Model("linears as given", read_model(source))]
    files = [file for given in configs for file in _files(given)]
    if len(files) > _MAX_CONFIGS:
        raise InputError(f"{len(files)} configs were given: expected at most {_MAX_CONFIGS}")
    names = [_short(file) for file in files]
    if len(files) == 1 or len(set(names)) < len(files):
        names = files
    models = []
    for name, file in zip(names, files, strict=True):
        with about(name if len(files) > 1 else ""):
            models.append(Model(name, read_model(file)))
    return models


def _short(file: str) -> str:
    """Return what a person calls a model: its folder's name for a config.json, else the file's."""
    path = Path(file)
    if path.name == "config.json":
        return path.parent.name or file
    return path.stem if path.suffix == ".json" else file


@contextmanager
def about(name: str) -> Iterator[None]:
    """Say of bad input which of several models it is about; nothing for the only one."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{quote(name)}: {error}" if name else str(error)) from None
