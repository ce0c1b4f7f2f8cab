"""Read a Hugging Face config.json that may be hostile, and take typed values out of it."""

import json
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from mxlab.errors import InputError, quote

#: bytes of a config.json that are read; the largest public one (an ignore list of 22,422 modules
#: written out) has 3 MB
MAX_BYTES = 16 << 20
#: the largest size that a config may name: eight times the largest vocabulary
MAX_SIZE = 1 << 24
MAX_LAYERS = 10_000

_PLAIN_KEY = re.compile(r"[A-Za-z0-9_.\[\]-]{1,80}")


def type_name(value: object) -> str:
    """Return what JSON calls the value's type.

    >>> type_name([1])
    'a list'
    """
    names = {dict: "an object", list: "a list", str: "a string", float: "a float"}
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int):
        return "a whole number"
    return next((name for kind, name in names.items() if isinstance(value, kind)), "not JSON")


def _shown(value: object) -> str:
    """Return the value and its type for a message, without walking into a deep container."""
    if value is None or isinstance(value, list | dict | tuple | Mapping):
        return type_name(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return quote(value) if abs(value) < 10**30 else "a number of over 30 digits"
    return f"{quote(value)} ({type_name(value)})"


@dataclass(frozen=True, slots=True)
class Section:
    """One object of a config, with the key path that leads to it.

    Keys that start with ``_`` are comments and are not there. A key whose value is null counts as
    absent, as it does for the config classes.
    """

    data: Mapping[str, Any]
    path: str = ""

    def at(self, key: str) -> str:
        """Return the key path of ``key``: what messages name, on one line whatever the key is."""
        shown = key if _PLAIN_KEY.fullmatch(key) else quote(key)
        return f"{self.path}.{shown}" if self.path else shown

    def named(self, key: str) -> bool:
        """Tell whether the key is written, be its value null."""
        return not key.startswith("_") and key in self.data

    def get(self, key: str) -> Any:
        """Return the raw value, or None."""
        return self.data.get(key) if self.named(key) else None

    def _refuse(self, key: str, value: object, expected: str) -> NoReturn:
        raise InputError(f"{self.at(key)} is {_shown(value)}: expected {expected}")

    def whole(self, key: str, low: int = 1, high: int = MAX_SIZE) -> int | None:
        """Return a whole number in ``low..high``, None when absent; else raise InputError.

        >>> Section({"hidden_size": 4096}).whole("hidden_size")
        4096
        """
        value = self.get(key)
        if value is None:
            return None
        expected = f"a whole number {low}..{high}"
        if isinstance(value, bool) or not isinstance(value, int):
            self._refuse(key, value, expected)
        if not low <= value <= high:
            self._refuse(key, value, f"{expected}; the nearest is {min(max(value, low), high)}")
        return value

    def flag(self, key: str) -> bool | None:
        """Return a boolean, None when absent."""
        value = self.get(key)
        if value is not None and not isinstance(value, bool):
            self._refuse(key, value, "true or false")
        return value

    def text(self, key: str) -> str | None:
        """Return a string, None when absent."""
        value = self.get(key)
        if value is not None and not isinstance(value, str):
            self._refuse(key, value, "a string")
        return value

    def words(self, key: str, length: int | None = None) -> tuple[str, ...] | None:
        """Return a list of strings, of the given length where one is given; None when absent."""
        return self._listed(key, str, "strings", length)

    def numbers(self, key: str, length: int | None = None) -> tuple[int, ...] | None:
        """Return a list of whole numbers, of the given length where one is given."""
        return self._listed(key, int, "whole numbers", length)

    def _listed(
        self, key: str, kind: type, kinds: str, length: int | None
    ) -> tuple[Any, ...] | None:
        value = self.get(key)
        if value is None:
            return None
        if not isinstance(value, list | tuple):
            self._refuse(key, value, f"a list of {kinds}")
        for position, item in enumerate(value):
            if not isinstance(item, kind) or isinstance(item, bool):
                self._refuse(f"{key}[{position}]", item, f"one of a list of {kinds}")
        if length is not None and len(value) != length:
            raise InputError(
                f"{self.at(key)} has {len(value)} entries: expected {length}, one a layer"
            )
        return tuple(value)

    def section(self, key: str) -> "Section | None":
        """Return a nested object, None when absent."""
        value = self.get(key)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            self._refuse(key, value, "an object")
        return Section(value, self.at(key))


def _refuse_constant(name: str) -> NoReturn:
    raise InputError(f"holds {name}, which JSON does not have")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise InputError(f"holds the number {quote(text)}, which no float can hold")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise InputError(f"names the key {quote(key)} twice in one object")
            seen.add(key)
    return found


def parse_json(data: bytes, name: str) -> Any:
    """Return the value of strict JSON: UTF-8, no NaN, no key twice, no nesting past all sense.

    Raises InputError with one line that begins with ``name``.

    >>> parse_json(b'{"a": 1}', "config.json")
    {'a': 1}
    """
    if data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        raise InputError(f"{name} starts with a byte order mark: expected UTF-8 without one")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{name} is not UTF-8 text (byte {error.start} is 0x{data[error.start]:02x}): "
            "expected a config.json"
        ) from None
    if not text.strip():
        raise InputError(f"{name} is empty: expected a JSON object")
    try:
        return json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            object_pairs_hook=_unique,
        )
    except InputError as error:
        raise InputError(f"{name} {error}") from None
    except RecursionError:
        raise InputError(f"{name} nests too deep: expected a config.json") from None
    except json.JSONDecodeError as error:
        raise InputError(
            f"{name} is not JSON: {error.msg} at line {error.lineno} column {error.colno}"
        ) from None
    except ValueError:  # an int of thousands of digits
        raise InputError(f"{name} holds a number of thousands of digits") from None


def _read_bounded(path: Path, name: str) -> bytes:
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise InputError(
            f"{name} holds {path.stat().st_size} bytes: expected at most {MAX_BYTES} (16 MB)"
        )
    return data


def _object(data: bytes, name: str) -> dict[str, Any]:
    value = parse_json(data, name)
    if not isinstance(value, dict):
        raise InputError(f"{name} is {type_name(value)}: expected a JSON object")
    return value


def _is_regular(path: Path) -> bool:
    """Tell a regular file from what would block or never end (a pipe, a device)."""
    return stat.S_ISREG(path.stat().st_mode)


def read_file(path: Path) -> dict[str, Any]:
    """Return the object in a config.json, or in the config.json of a folder.

    A ``hf_quant_config.json`` beside a file named config.json (ModelOpt's habit) is kept under
    ``_hf_quant_config``. Raises InputError.
    """
    name = quote(str(path))
    try:
        if path.is_dir():
            path = path / "config.json"
            if not path.exists():
                raise InputError(f"folder {name} has no config.json")
        if not _is_regular(path):
            raise InputError(f"{name} is not a regular file: expected a config.json")
        config = _object(_read_bounded(path, name), name)
        beside = path.with_name("hf_quant_config.json")
        if path.name == "config.json" and beside.exists() and _is_regular(beside):
            config["_hf_quant_config"] = _object(_read_bounded(beside, quote(str(beside))), name)
        return config
    except OSError as error:
        reason = error.strerror or "unreadable"
        raise InputError(f"cannot read {name}: {reason}") from None


def refuse_source(source: object) -> NoReturn:
    """Raise InputError for what is neither a path nor a name nor an object."""
    raise InputError(f"config is {_shown(source)}: expected a path, a model's name or an object")


def read_config(source: str | Path | Mapping[str, Any]) -> dict[str, Any]:
    """Return the config as a plain dict.

    ``source`` is a config.json, a folder that holds one, the name of a model that mxlab ships, or
    the object itself. Raises InputError: no such file, over 16 MB, not JSON, not an object.

    >>> read_config("Llama-3.1-8B")["hidden_size"]
    4096
    """
    if isinstance(source, Mapping):
        return dict(source)
    if not isinstance(source, str | Path):
        refuse_source(source)
    from mxlab.models.shipped import shipped_config

    path = Path(source)
    try:
        exists = bool(str(source).strip()) and path.exists()  # "" is not the current folder
    except (OSError, ValueError):  # a name too long for the file system; a NUL in it
        exists = False
    return read_file(path) if exists else shipped_config(str(source))
