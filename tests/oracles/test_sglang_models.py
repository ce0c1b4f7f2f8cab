"""Which fused linears SGLang's model classes take apart for the ignore list, read from its source.

The classes need CUDA to be imported; what they declare is a literal, and ``ast`` reads it.
"""

import ast
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from peer_process import lacking

from mxlab.guards.ignore import FUSED
from mxlab.guards.releases import NEWEST
from mxlab.models.families import families
from mxlab.quantized import PACKED
from tools.oracles import FOLDER

pytestmark = pytest.mark.oracle

PEER = f"sglang-{NEWEST.version}"
NAME = "packed_modules_mapping"
_DERIVED = re.compile(r"^class \w+\(\w*For(CausalLM|ConditionalGeneration)\w*\)", re.M)
#: class -> the class of the language model in it, whose constructor hands its own mapping on
INNER = {"KimiK25ForConditionalGeneration": "DeepseekV3ForCausalLM"}


def _declared(body: ast.ClassDef) -> tuple[Mapping[str, Any] | str, dict[str, Any]]:
    """Return what a class declares, a mapping or another class, and what its methods add."""
    own: Mapping[str, Any] | str = ""
    added: dict[str, Any] = {}
    for node in ast.walk(body):
        if not isinstance(node, ast.Assign):
            continue
        target, value = node.targets[0], node.value
        if isinstance(target, ast.Name) and target.id == NAME:
            if isinstance(value, ast.Attribute):
                own = ast.unparse(value.value).rpartition(".")[2]
            elif all(key is not None for key in getattr(value, "keys", [None])):
                own = ast.literal_eval(value)
        elif isinstance(target, ast.Subscript) and ast.unparse(target.value) == f"self.{NAME}":
            added[ast.literal_eval(target.slice)] = ast.literal_eval(value)
    return own, added


class Classes:
    """Every class of SGLang's models, by name."""

    def __init__(self, folder: Path) -> None:
        self.bodies: dict[str, ast.ClassDef] = {}
        self.names: set[str] = set()
        for file in sorted(folder.glob("*.py")):
            text = file.read_text(encoding="utf-8-sig")
            self.names.update(re.findall(r"^class (\w+)", text, re.M))
            # what is left out declares nothing; parsing all of them takes seconds
            if NAME in text or _DERIVED.search(text) or any(name in text for name in INNER):
                for node in ast.parse(text).body:
                    if isinstance(node, ast.ClassDef):
                        self.bodies.setdefault(node.name, node)

    def mapping(self, name: str) -> dict[str, Any]:
        if name not in self.bodies:
            return {}
        body = self.bodies[name]
        own, added = _declared(body)
        if isinstance(own, str) and own:
            return {**self.mapping(own), **added}
        found: dict[str, Any] = {}
        for base in body.bases:
            found |= self.mapping(ast.unparse(base))
        return {**found, **(own or {}), **added}


@pytest.fixture(scope="module")
def classes() -> Classes:
    why = lacking(PEER)
    if why:
        pytest.skip(why)
    return Classes(FOLDER / PEER / "sglang" / "srt" / "models")


def test_every_family_takes_apart_what_its_class_says(classes: Classes) -> None:
    seen = set()
    for family in families():
        for architecture in family.architectures:
            if architecture not in classes.names:  # transformers' alone
                continue
            said = classes.mapping(INNER.get(architecture, architecture))
            fused = {
                leaf: tuple(members)
                for leaf, members in said.items()
                if leaf not in FUSED and list(members) != [leaf] and not leaf.startswith(".")
            }
            assert fused == PACKED.get(family.name, {}), architecture
            seen.add(family.name)
            for leaf in FUSED.keys() & said.keys():
                assert tuple(said[leaf]) == FUSED[leaf], (architecture, leaf)
    assert len(seen) > 30 and set(PACKED) <= seen
