"""Open what a person names: a safetensors file, a folder, an index, a config.json."""

import stat
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mxlab.checkpoints.finding import Problem
from mxlab.checkpoints.header import MAX_TENSORS, check_name, read_header, strict_json
from mxlab.checkpoints.tensors import Checkpoint, Tensor
from mxlab.errors import InputError, quote
from mxlab.models.config import read_file, type_name

#: bytes of an index: eight times that of the largest public checkpoints
MAX_INDEX = 64 << 20
_MAX_SHARDS = 10_000
_INDEX = ".safetensors.index.json"
#: endings of files that hold pickles: opening one may run code
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".bin.index.json")


def _refuse_pickle(name: str) -> None:
    if name.lower().endswith(_PICKLES):
        raise InputError(
            f"{quote(name)} is a pickle format, which can run code when opened: mxlab never "
            "unpickles; expected safetensors"
        )


def _shard_path(folder: Path, name: object, where: str) -> Path:
    """Return the path of a shard that an index names; nothing outside the folder is reachable.

    A Hugging Face cache keeps its files as links to ``blobs`` beside ``snapshots``: links into
    there are followed, all others that leave the folder are not.
    """
    if not isinstance(name, str):
        raise InputError(f"{where}: weight_map holds {type_name(name)}: expected a file name")
    _refuse_pickle(name)
    parts = name.split("/")
    odd = "\\" in name or not name.isprintable() or len(name) > 255
    if odd or "" in parts or ".." in parts:
        raise InputError(
            f"{where}: weight_map names the file {quote(name)}: expected a file in the folder"
        )
    if not name.endswith(".safetensors"):
        raise InputError(
            f"{where}: weight_map names the file {quote(name)}: expected a .safetensors file"
        )
    path = folder / name
    home = folder.resolve()
    homes = [home]
    if home.parent.name == "snapshots":
        homes.append(home.parent.parent / "blobs")
    target = path.resolve()
    if not any(target.is_relative_to(allowed) for allowed in homes):
        raise InputError(
            f"{where}: {quote(name)} is a link that leaves the folder: expected a file in it"
        )
    return path


def _read_index(path: Path) -> tuple[dict[str, str], dict[str, Path]]:
    """Return tensor -> file and file -> path of an index."""
    where = quote(path.name)
    size = path.stat().st_size
    if size > MAX_INDEX:
        raise InputError(f"{where} holds {size} bytes: expected at most {MAX_INDEX} (64 MB)")
    index = strict_json(path.read_bytes(), where, "a safetensors index")
    placed = index.get("weight_map")
    if not isinstance(placed, Mapping) or not placed:
        raise InputError(
            f"{where}: weight_map is {type_name(placed)}: expected an object of tensor to file"
        )
    if len(placed) > MAX_TENSORS:
        raise InputError(f"{where} names {len(placed)} tensors: expected at most {MAX_TENSORS}")
    paths: dict[str, Path] = {}
    for name, file in placed.items():
        check_name(name, where)
        if not isinstance(file, str) or file not in paths:
            paths[str(file)] = _shard_path(path.parent, file, where)
            if len(paths) > _MAX_SHARDS:
                raise InputError(f"{where} names over {_MAX_SHARDS} files")
    return dict(placed), paths


def _add_file(checkpoint: Checkpoint, file: str, path: Path) -> list[Tensor]:
    """Read one header; note tensors that another file holds too."""
    if not path.is_file():
        raise InputError(f"{quote(file)} is not a regular file: expected a safetensors file")
    tensors = read_header(path, file)
    checkpoint.paths[file] = path
    for tensor in tensors:
        before = checkpoint.tensors.get(tensor.name)
        if before is None:
            checkpoint.tensors[tensor.name] = tensor
            continue
        same = (before.dtype, before.shape) == (tensor.dtype, tensor.shape)
        text = f"in {before.file} and {file}, {'same' if same else 'another'} dtype and shape"
        checkpoint.problems.append(Problem("duplicate-tensor", tensor.name, text))
    if len(checkpoint.tensors) > MAX_TENSORS:
        raise InputError(f"checkpoint has over {MAX_TENSORS} tensors")
    return tensors


def _add_index(checkpoint: Checkpoint, path: Path) -> None:
    placed, paths = _read_index(path)
    present = {file: at for file, at in paths.items() if at.exists()}
    held: dict[str, set[str]] = {}
    for file, at in present.items():
        held[file] = {tensor.name for tensor in _add_file(checkpoint, file, at)}
    counts = Counter(placed.values())
    for file in sorted(paths.keys() - present.keys()) if present else ():
        text = f"named by the index for {counts[file]} tensors"
        checkpoint.problems.append(Problem("missing-shard", file, text))
    for name, file in placed.items():
        if file not in present:
            checkpoint.tensors.setdefault(name, Tensor(name, file))
        elif name not in held[file]:
            elsewhere = checkpoint.tensors.get(name)
            other = f"; {elsewhere.file} has it" if elsewhere else ""
            text = f"the index places it in {file}, which does not hold it{other}"
            checkpoint.problems.append(Problem("index-mismatch", name, text))
    for file, names in held.items():
        for name in sorted(names - placed.keys()):
            text = f"{file} holds it and the index does not name it"
            checkpoint.problems.append(Problem("index-mismatch", name, text))
    if not present:
        checkpoint.kind = "index"
        checkpoint.notes.append(
            "no shard is here: names only, dtypes and shapes are unknown and not checked"
        )


def _config_beside(folder: Path) -> dict[str, Any] | None:
    """Return config.json with ModelOpt's hf_quant_config.json, where one of them is there."""
    if (folder / "config.json").exists():
        return read_file(folder / "config.json")
    if (folder / "hf_quant_config.json").exists():
        return {"_hf_quant_config": read_file(folder / "hf_quant_config.json")}
    return None


def _only(names: Iterable[Path], folder: Path, what: str) -> Path:
    found = sorted(names)
    if len(found) > 1:
        listed = ", ".join(path.name for path in found[:4])
        raise InputError(f"folder {quote(str(folder))} has {len(found)} {what}: name one: {listed}")
    return found[0]


def _open_folder(folder: Path) -> Checkpoint:
    checkpoint = Checkpoint(path=str(folder), kind="folder", config=_config_beside(folder))
    entries = sorted(folder.iterdir())
    if len(entries) > 100 * _MAX_SHARDS:
        raise InputError(f"folder {quote(str(folder))} has {len(entries)} entries")
    indexes = [path for path in entries if path.name.endswith(_INDEX)]
    shards = [path for path in entries if path.name.endswith(".safetensors")]
    pickles = [path for path in entries if path.name.lower().endswith(_PICKLES)]
    if indexes:
        usual = folder / f"model{_INDEX}"
        index = usual if usual in indexes else _only(indexes, folder, "indexes")
        _add_index(checkpoint, index)
        spare = [path.name for path in shards if path.name not in checkpoint.paths]
        if spare and checkpoint.paths:
            names = ", ".join(map(quote, spare[:3]))
            checkpoint.notes.append(f"{len(spare)} files that the index does not name: {names}")
    elif shards:
        single = folder / "model.safetensors"
        for path in [single] if single in shards else shards:
            _shard_path(folder, path.name, quote(str(folder)))
            _add_file(checkpoint, path.name, path)
        if len(checkpoint.paths) > 1:
            checkpoint.notes.append(f"{len(shards)} files and no index: all were read")
        elif len(shards) > 1:
            checkpoint.notes.append(f"only model.safetensors was read, of {len(shards)} files")
    elif pickles:
        _refuse_pickle(pickles[0].name)
    elif checkpoint.config is not None:
        checkpoint.kind = "config"
    else:
        raise InputError(
            f"folder {quote(str(folder))} has no safetensors file, index or config.json"
        )
    return checkpoint


def _open_file(path: Path) -> Checkpoint:
    """One safetensors file, with the config and the names of the other shards beside it."""
    checkpoint = Checkpoint(path=str(path), kind="file", config=_config_beside(path.parent))
    _add_file(checkpoint, path.name, path)
    index = path.parent / f"model{_INDEX}"
    if index.is_file():
        placed, _ = _read_index(index)
        if path.name in set(placed.values()):
            checkpoint.elsewhere = frozenset(placed) - checkpoint.tensors.keys()
            checkpoint.part = f"one of {len(set(placed.values()))} shards"
    elif "-of-" in path.name:
        checkpoint.part = "one shard by its name, and no index is beside it"
    if checkpoint.part:
        checkpoint.notes.append(f"{checkpoint.part}: what the others hold was not looked at")
    return checkpoint


def open_checkpoint(source: str | Path) -> Checkpoint:
    """Return the tensors and claims of a checkpoint; no tensor data is read.

    ``source`` is a .safetensors file, a folder, an index or a config.json. Raises InputError with
    one line: no such path, pickles, hostile or damaged files.
    """
    path = Path(source)
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            return _open_folder(path)
        _refuse_pickle(path.name)
        if not stat.S_ISREG(mode):
            raise InputError(f"{quote(str(path))} is not a regular file or a folder")
        if path.name.endswith(_INDEX):
            checkpoint = Checkpoint(path=str(path), kind="folder")
            checkpoint.config = _config_beside(path.parent)
            _add_index(checkpoint, path)
            return checkpoint
        if path.name == "hf_quant_config.json":
            return Checkpoint(
                path=str(path), kind="config", config={"_hf_quant_config": read_file(path)}
            )
        if path.suffix == ".json":
            return Checkpoint(path=str(path), kind="config", config=read_file(path))
        return _open_file(path)
    except OSError as error:
        reason = error.strerror or "unreadable"
        raise InputError(f"cannot read {quote(str(path))}: {reason}") from None
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"cannot read {quote(str(source))}: not a path") from None
