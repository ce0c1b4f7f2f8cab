"""Explorers in JupyterLab: an ipywidget whose logic runs in the kernel.

The output is HTML (the still picture) and the face is mounted into it while the kernel lives: a
saved notebook therefore reopens with a picture, never with "model not found". Every control is a
synced traitlet, so ``observe``, ``ipywidgets.link`` and ``explorer.n = 8640`` work.
"""

import json
import os
import re
import sys
import uuid
from pathlib import Path
from typing import Any, ClassVar, Self

try:
    import anywidget
    import traitlets
except ImportError as missing:
    raise ImportError("notebook explorers need: pip install 'mxlab[lab]'") from missing

from mxlab.explorers import EXPLORERS, drawn, explorer
from mxlab.explorers.controls import AnyControl, Choice, Int
from mxlab.explorers.protocol import Explorer
from mxlab.explorers.still import still

STATIC = Path(__file__).parent / "static"
_IMPORT = re.compile(r'^import \{[^}]*\} from "\./([a-z]+\.mjs)";\n', re.MULTILINE)


def bundle(name: str = "face.mjs") -> str:
    """Return a module and what it imports from its folder as one module, as anywidget needs it."""
    parts: dict[str, str] = {}

    def add(file: str) -> None:
        source = (STATIC / file).read_text(encoding="utf-8")
        for imported in _IMPORT.findall(source):
            if imported not in parts:
                add(imported)
        own = _IMPORT.sub("", source)
        parts[file] = own if file == name else re.sub(r"^export (?!default)", "", own, flags=re.M)

    add(name)
    return "\n".join(parts.values())


def _trait(control: AnyControl) -> traitlets.TraitType[Any, Any]:
    if isinstance(control, Int):
        return _Clamped(control, control.default).tag(sync=True)
    return _Cleaned(control, control.default).tag(sync=True)


class _Clamped(traitlets.Int[int, int]):
    """An int that clamps: with ``Int(min=, max=)`` linking a slider fails at once."""

    def __init__(self, control: Int, default: int) -> None:
        super().__init__(default, help=control.help)
        self.control = control

    def validate(self, obj: object, value: object) -> int:
        return self.control.clean(value)


class _Cleaned(traitlets.Unicode[str, Any]):
    """A text or a choice; a name that is no option raises, naming the options."""

    def __init__(self, control: AnyControl, default: object) -> None:
        super().__init__(str(default), help=control.help)
        self.control = control

    def validate(self, obj: object, value: object) -> str:
        if isinstance(self.control, Choice) and isinstance(value, str):
            names = [name for name, _ in self.control.options]
            if value.lower() not in (name.lower() for name in names):
                raise traitlets.TraitError(
                    f"{self.control.name} is {value!r:.80}: expected one of {', '.join(names)}"
                )
        return str(self.control.clean(value))


class ExplorerWidget(anywidget.AnyWidget):
    """An explorer as an ipywidget; the subclasses have one trait for each control."""

    EXPLORER: ClassVar[Explorer]
    _esm = bundle()
    css = traitlets.Unicode((STATIC / "face.css").read_text(encoding="utf-8")).tag(sync=True)
    spec = traitlets.Dict().tag(sync=True)
    answer = traitlets.Dict().tag(sync=True)
    mount = traitlets.Unicode().tag(sync=True)
    notice = traitlets.Unicode().tag(sync=True)
    dead = traitlets.Bool(False).tag(sync=True)

    def __init__(self, **settings: Any) -> None:
        names = [control.name for control in self.EXPLORER.controls]
        unknown = [name for name in settings if not self.has_trait(name) and name != "model_id"]
        if unknown:
            raise TypeError(f"no control {unknown[0]!r}: expected one of {', '.join(names)}")
        settings.setdefault("model_id", uuid.uuid4().hex)  # known before the comm opens
        settings["mount"] = f"mxlab-{settings['model_id']}"
        settings["spec"] = self.EXPLORER.spec()
        state = {c.name: settings.get(c.name, c.default) for c in self.EXPLORER.controls}
        settings["answer"] = self.EXPLORER.answer(state)
        super().__init__(**settings)
        self.answer = self.EXPLORER.answer(self.state)
        self.observe(self._recompute, names=names)
        self.on_msg(self._draw)

    @property
    def state(self) -> dict[str, int | str]:
        """The controls' values as one dict; ``from_state`` takes it back."""
        return {c.name: getattr(self, c.name) for c in self.EXPLORER.controls}

    @classmethod
    def from_state(cls, state: object) -> Self:
        """Return an explorer at ``state``, a dict or JSON text; what is not valid is mended."""
        if isinstance(state, str):
            state = json.loads(state)
        return cls(**cls.EXPLORER.clean(state))

    def _recompute(self, _change: object) -> None:
        self.answer = self.EXPLORER.answer(self.state)

    def _draw(self, _widget: object, content: object, _buffers: object) -> None:
        """Answer the face's wish for a picture, {"want": "picture"}."""
        if content == {"want": "picture"}:
            self.send({"svg": drawn(self.EXPLORER.name, json.dumps(self.state))})

    def _repr_mimebundle_(self, **_kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        view = self.answer.get("view") or {}
        data: dict[str, Any] = {
            "text/plain": f"{self.EXPLORER.title} {view.get('answer', self.answer.get('error'))}",
            "text/html": still(self.EXPLORER, self.state, self._place()),
        }
        if _cannot_mount():
            data["application/vnd.jupyter.widget-view+json"] = {
                "version_major": 2,
                "version_minor": 1,
                "model_id": self.model_id,
            }
        return data, {}

    def _place(self) -> str:
        """Return the mount's id: numbered in the book, so that builds are equal."""
        if "MXLAB_BOOK" not in os.environ:
            return str(self.mount)
        _numbered.append(self.EXPLORER.name)
        return f"{self.EXPLORER.name}-{_numbered.count(self.EXPLORER.name)}"


_numbered: list[str] = []


def _cannot_mount() -> bool:
    """Tell whether the host shows each output in a frame of its own (VS Code, Colab)."""
    wish = os.environ.get("MXLAB_DISPLAY")
    return wish == "both" or (
        not wish and ("VSCODE_PID" in os.environ or "google.colab" in sys.modules)
    )


def _widget_class(name: str, class_name: str) -> type[ExplorerWidget]:
    record = explorer(name)
    traits = {control.name: _trait(control) for control in record.controls}
    settings = "\n".join(f"{c.name}: {c.label}. {c.help}" for c in record.controls)
    text = f"{record.title} {record.question}\n\n{settings}"
    members = {"EXPLORER": record, "__doc__": text, "__module__": __name__, **traits}
    return type(class_name, (ExplorerWidget,), members)


def __getattr__(name: str) -> type[ExplorerWidget]:
    """Make the class of an explorer when it is first asked for; it stays."""
    for module, class_name in EXPLORERS.items():
        if class_name == name:
            made = globals()[name] = _widget_class(module, class_name)
            return made
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
