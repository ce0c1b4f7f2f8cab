"""Transformer Engine 2.20's own Python against our rows: cut out of the package and run.

The package needs its CUDA extension to be imported, so the functions run on their own, with a
compute capability that the test names.
"""

import ast
import importlib.metadata
import math
import random
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mxlab.guards import CallFacts, Deployment, Status, Verdict, check, platform
from mxlab.guards.transformer_engine import GROUPED, LINEAR, VERSION
from mxlab.hardware import GPUS

pytestmark = pytest.mark.oracle


def cut(file: str, *names: str, **space: Any) -> dict[str, Any]:
    """Return a namespace with these functions of a file of the package."""
    spec = find_spec("transformer_engine")
    if spec is None or importlib.metadata.version("transformer_engine") != VERSION:
        pytest.skip(f"Transformer Engine {VERSION} is not installed")
    assert spec.submodule_search_locations
    tree = ast.parse((Path(spec.submodule_search_locations[0]) / file).read_text())
    found: list[ast.stmt] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name in names:
            node.decorator_list = []
            found.append(node)
    assert len(found) == len(names)
    future = ast.parse("from __future__ import annotations").body
    made = {"math": math, **space}
    exec(compile(ast.Module([*future, *found], []), file, "exec"), made)
    return made


def ask(call: CallFacts, gpu: str = "b200") -> dict[str, Verdict]:
    deployment = Deployment(system="transformer_engine", gpu=gpu)
    return {verdict.guard: verdict for verdict in check(deployment, call=call)}


def test_capability() -> None:
    now = [(0, 0)]
    name = "_compute_mxfp8_support"
    space = cut("pytorch/quantization.py", name, get_device_compute_capability=lambda: now[0])
    seen = set()
    for gpu in GPUS:
        if not platform(Deployment(gpu=gpu)).cuda:
            continue
        now[0] = GPUS[gpu].capability
        supported, reason = space[name]()
        verdicts = ask(CallFacts(function=LINEAR, m=64, n=64, k=64), gpu)
        first = [v.message for v in verdicts.values() if v.status is Status.STOPS]
        assert first[:1] == ([] if supported else [reason]), gpu
        seen.add(reason)
    assert len(seen) == 3


def test_default_recipe() -> None:
    now = [(0, 0)]
    recipes = {
        name: type(name, (), {})
        for name in ("MXFP8BlockScaling", "Float8CurrentScaling", "DelayedScaling")
    }
    space: dict[str, Any] = cut(
        "pytorch/quantization.py",
        "get_default_fp8_recipe",
        "_compute_mxfp8_support",
        get_device_compute_capability=lambda: now[0],
        torch=SimpleNamespace(compiler=SimpleNamespace(is_compiling=lambda: False)),
        check_mxfp8_support=lambda: space["_compute_mxfp8_support"](),
        **recipes,
    )
    seen: Counter[str] = Counter()
    for gpu in GPUS:
        if not platform(Deployment(gpu=gpu)).cuda:
            continue
        now[0] = GPUS[gpu].capability
        recipe = type(space["get_default_fp8_recipe"]()).__name__
        call = CallFacts(function=LINEAR, m=64, n=64, k=64, backend="default")
        verdict = ask(call, gpu)["te-default-recipe"]
        silent = verdict.status is Status.SILENT
        assert silent is (recipe != "MXFP8BlockScaling"), gpu
        assert recipe in verdict.because
        seen[recipe] += 1
    assert set(seen) == set(recipes)


def test_dimensions() -> None:
    class Tensor:
        def __init__(self, *shape: int) -> None:
            self.shape, self.ndim = shape, len(shape)

        def size(self) -> tuple[int, ...]:
            return self.shape

    fp8 = cut("pytorch/utils.py", "assert_dim_for_fp8_exec")["assert_dim_for_fp8_exec"]
    space = cut("pytorch/tensor/mxfp8_tensor.py", "is_quantizable", MXFP8_BLOCK_SCALING_SIZE=32)
    r, seen = random.Random(20), Counter[str]()
    for _ in range(2000):
        m, n, k = (r.choice((8, 11, 16, 24, 32, 44, 48, 64, 96, 128, 1376)) for _ in range(3))
        training = r.random() < 0.5
        call = CallFacts(function=LINEAR, m=m, n=n, k=k, training=training)
        verdicts = ask(call)
        try:
            fp8(Tensor(m, k), Tensor(n, k))
            text = ""
        except ValueError as error:
            text = str(error)
        assert verdicts["te-dim16"].message == text
        shapes = [(m, k), (n, k), *([(m, n)] if training else [])]
        bad = [shape for shape in shapes if not space["is_quantizable"](None, Tensor(*shape))]
        stopped = verdicts["te-dim32"]
        assert (stopped.status is Status.STOPS) is bool(bad), call
        if bad:
            assert stopped.message.endswith(f"(got shape=({bad[0][0]},{bad[0][1]}))")
        seen["16" if text else "32" if bad else ""] += 1
    assert min(seen.values()) > 50
    assert len(seen) == 3


def test_alignment_of_splits() -> None:
    space = cut("pytorch/quantization.py", "get_align_size_for_quantization")
    recipe = SimpleNamespace(custom=lambda: False, mxfp8=lambda: True)
    of = space["get_align_size_for_quantization"](recipe)
    assert of == 32
    for splits in ((44, 20, 0, 64), (64, 32, 0, 64), (of, of + 1), (0, 0), (of * 3,)):
        call = CallFacts(function=GROUPED, m=sum(splits), n=256, k=256, groups=splits)
        stops = ask(call)["te-group-align"].status is Status.STOPS
        assert stops is any(size % of for size in splits), splits
