"""The weights of a checkpoint, from the headers of its safetensors files."""

from collections import Counter
from pathlib import Path

from mxlab.checkpoints.source import open_checkpoint
from mxlab.checkpoints.weights import pair
from mxlab.errors import InputError
from mxlab.models.config import read_file
from mxlab.models.model import Model, Stored


def headers_model(path: Path) -> Model:
    """Return the config and the weights of a folder, an index or one .safetensors file.

    Headers that cannot be read (pointers of a clone without its large files, a broken download)
    are a note where a config.json is beside them, and raise InputError where it is not.
    """
    try:
        checkpoint = open_checkpoint(path)
    except InputError as error:
        if not path.is_dir() or not (path / "config.json").exists():
            raise
        return Model(config=read_file(path), notes=(f"no header was read: {error}",))
    config = checkpoint.config or {}
    if checkpoint.kind == "config":
        return Model(config=config)
    missing = [p.tensor for p in checkpoint.problems if p.kind == "missing-shard"]
    notes = list(checkpoint.notes)
    if missing:
        notes.append(f"{len(missing)} shards are missing: {', '.join(missing[:3])}")
    weights, _ = pair(checkpoint)
    formats = Counter(weight.format for weight in weights if weight.n)
    if formats:
        found = ", ".join(f"{name} x {count}" for name, count in formats.most_common())
        notes.append(f"stored weights: {found}")
    return Model(
        kind="index" if checkpoint.kind == "index" else "headers",
        config=config,
        stored=tuple(Stored(w.module, w.n, w.k, w.experts) for w in weights),
        partial=bool(checkpoint.part or missing),
        notes=tuple(notes),
    )
