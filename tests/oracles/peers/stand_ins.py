"""Stand-ins for what a peer imports and these tests never run. Lives in the peer's child process.

A stand-in answers any attribute with another one, so that module-level code gets through. The
peer's own checks are never replaced, and a package that the peer is told is absent is absent.
"""

import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Iterable, Sequence
from typing import Any


class Anything(type):
    """A class whose every attribute is such a class again; it compares, indexes and iterates."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = anything(name)
        setattr(cls, name, value)
        return value

    def __or__(cls, other: object) -> Any:
        return cls

    __ror__ = __or__

    def __lt__(cls, other: object) -> bool:
        return False

    __gt__ = __le__ = __ge__ = __lt__

    def __contains__(cls, item: object) -> bool:
        return False

    def __iter__(cls) -> Any:
        return iter(())

    def __getitem__(cls, key: object) -> Any:
        return anything("item")

    def __setitem__(cls, key: object, value: object) -> None:
        return None

    def __len__(cls) -> int:
        return 0

    def __bool__(cls) -> bool:
        return True


def _attribute(self: object, name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return anything(name)()


def _called(self: object, *arguments: Any, **named: Any) -> Any:
    """As a decorator, hand back what is decorated."""
    return arguments[0] if len(arguments) == 1 and callable(arguments[0]) else None


def anything(name: str) -> Any:
    """Return a new stand-in class."""
    members = {
        "__init__": lambda self, *arguments, **named: None,
        "__init_subclass__": classmethod(lambda cls, **named: None),
        "__class_getitem__": classmethod(lambda cls, item: cls),
        "__call__": _called,
        "__getattr__": _attribute,
    }
    return Anything(name, (), members)


class Module(types.ModuleType):
    """A module that has everything."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = anything(name)
        setattr(self, name, value)
        return value


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives stand-ins to the peer alone: for ``always``, and for what only it cannot import."""

    def __init__(self, peer: str, always: Iterable[str] = (), absent: Iterable[str] = ()) -> None:
        self.peer, self.replaced = peer, set(always)
        self.asking = False
        for name in absent:  # cannot be imported, nor found, though it may be installed
            sys.modules[name] = None  # type: ignore[assignment]

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        top = name.partition(".")[0]
        if top in self.replaced:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        if self.asking or top == self.peer or name != top or not self._asked_by_peer():
            return None
        self.asking = True
        try:
            there = importlib.machinery.PathFinder.find_spec(top) or top in sys.builtin_module_names
        finally:
            self.asking = False
        if there:
            return None
        self.replaced.add(top)
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def _asked_by_peer(self) -> bool:
        frame = sys._getframe(2)
        while frame and frame.f_globals.get("__name__", "").startswith(("importlib", "_frozen")):
            assert frame.f_back is not None
            frame = frame.f_back
        return str(frame.f_globals.get("__name__", "")).partition(".")[0] == self.peer

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return Module(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        module.__path__ = []


def bare_package(name: str, folder: str) -> types.ModuleType:
    """Import a package without running its ``__init__``."""
    module = types.ModuleType(name)
    module.__path__ = [folder]
    module.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
    module.__spec__.submodule_search_locations = [folder]
    sys.modules[name] = module
    return module
