"""Record what vLLM's own checks say: its functions, cut out of an unpacked wheel and run here.

Run by hand, ``python tests/record_vllm_outcomes.py WHEEL_FOLDER VERSION OUT``; nothing of vLLM is
imported, what its functions call is stubbed, and the test replays the answers anywhere.
"""

from __future__ import annotations
import __future__

import ast
import gzip
import json
import math
import random
import sys
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch

LINEAR = "vllm/model_executor/kernels/linear"
QUANT = "vllm/model_executor/layers/quantization"
GPUS = {"a100": 80, "l40s": 89, "h200": 90, "b200": 100, "b300": 103, "thor": 110}
GPUS |= {"rtx5090": 120, "gb10": 121, "t4": 75}
FILES = ("flashinfer", "marlin", "b12x", "emulation", "humming", "pytorch")


def cut(path: Path, names: set[str], space: dict[str, Any]) -> None:
    """Run the definitions called ``names`` of a file in ``space``."""
    tree = ast.parse(path.read_text())
    body: list[ast.stmt] = [
        node
        for node in tree.body
        if (isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in names)
        or (isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") in names)
    ]
    code = compile(
        ast.Module(body=body, type_ignores=[]),
        str(path),
        "exec",
        flags=__future__.annotations.compiler_flag,
    )
    exec(code, space)


def said(run: Any) -> tuple[str, str]:
    try:
        run()
    except (AssertionError, ValueError, NotImplementedError) as error:
        return type(error).__name__, str(error)
    return "", ""


class Platform:
    """Stands for vLLM's current_platform."""

    def __init__(self, capability: int) -> None:
        self.capability = capability
        self._enum = "cuda"

    def is_cuda(self) -> bool:
        return True

    def is_rocm(self) -> bool:
        return False

    def is_xpu(self) -> bool:
        return False

    def is_fp8_fnuz(self) -> bool:
        return False

    def has_device_capability(self, least: int) -> bool:
        return self.capability >= least

    def is_device_capability_family(self, family: int) -> bool:
        return self.capability // 10 == family // 10


def kernels(root: Path) -> list[dict[str, Any]]:
    """Ask vLLM's selection for every GPU, with and without FlashInfer, at many shapes."""
    cases = []
    base = SimpleNamespace
    fp8 = ModuleType("vllm.model_executor.layers.quantization.utils.marlin_utils_fp8")
    sys.modules[fp8.__name__] = fp8
    sizes = [(n, k) for n in (32, 96, 128, 144, 2880) for k in (64, 96, 128, 1024, 1056)]
    for gpu, capability in GPUS.items():
        for flashinfer in (True, False):
            platform = Platform(capability)
            space: dict[str, Any] = {
                "Mxfp8LinearKernel": base,
                "MXFP8_BLOCK_SIZE": 32,
                "current_platform": platform,
                "has_flashinfer": partial(bool, flashinfer),
                "has_flashinfer_cutedsl": partial(bool, flashinfer),
                "has_humming": bool,
                "_import_b12x_mxfp8": lambda: None,
                "torch": torch,
            }
            marlin = partial(platform.has_device_capability, 75)
            fp8.is_fp8_marlin_supported = marlin  # type: ignore[attr-defined]
            for name in FILES:
                path = root / LINEAR / "mxfp8" / f"{name}.py"
                if path.exists():
                    tree = ast.parse(path.read_text())
                    wanted = {n.name for n in tree.body if isinstance(n, ast.ClassDef)}
                    cut(path, wanted | {"_check_mm_mxfp8_shape"}, space)
            order = _order(root / LINEAR / "__init__.py")
            for n, k in sizes:
                cases.append(
                    {
                        "gpu": gpu,
                        "flashinfer": flashinfer,
                        "n": n,
                        "k": k,
                        "order": order,
                        "answers": [_ask(space[name], n, k) for name in order],
                    }
                )
    return cases


def _order(path: Path) -> list[str]:
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.AnnAssign) and node.target.id == "_POSSIBLE_MXFP8_KERNELS":  # type: ignore[union-attr]
            return [name.id for name in node.value.values[0].elts]  # type: ignore[union-attr]
    raise SystemExit(f"no MXFP8 kernels in {path}")


def _ask(kernel: Any, n: int, k: int) -> str:
    good, reason = kernel.is_supported()
    if good:
        good, reason = kernel.can_implement(SimpleNamespace(weight_shape=(n, k)))
    return "" if good else str(reason)


def blocks(root: Path) -> list[dict[str, Any]]:
    """Ask the block-FP8 checks of linears."""
    distributed = ModuleType("vllm.distributed")
    distributed.get_tensor_model_parallel_world_size = lambda: 1  # type: ignore[attr-defined]
    sys.modules["vllm.distributed"] = distributed
    space: dict[str, Any] = {"logger": SimpleNamespace(debug=lambda *a: None)}
    cut(root / QUANT / "utils/fp8_utils.py", {"validate_fp8_block_shape"}, space)
    r, cases = random.Random(33), []
    for _ in range(300):
        tp = r.choice((1, 2, 4, 8))
        parts = [r.choice((64, 96, 128, 192, 256, 576)) for _ in range(r.choice((1, 1, 2, 3)))]
        k, split = r.choice((64, 128, 192, 256, 576)), r.choice(("row", "column", "replicated"))
        whole_k = k * tp if split == "row" else k
        whole_n = sum(parts) * tp if split == "column" else sum(parts)
        layer = SimpleNamespace(tp_size=tp)
        sizes = (whole_k, whole_n, k, parts, [128, 128])
        error, text = said(partial(space["validate_fp8_block_shape"], layer, *sizes))
        cases.append({"tp": tp, "shard": split, "parts": parts, "k": k, "error": [error, text]})
    return cases


def scales(root: Path) -> list[dict[str, Any]]:
    """Ask the KV-cache method about pairs of scales."""
    warnings: list[str] = []
    space: dict[str, Any] = {
        "QuantizeMethodBase": object,
        "torch": torch,
        "current_platform": Platform(90),
        "logger": SimpleNamespace(warning_once=lambda text, *a: warnings.append(text)),
        "is_weights_pre_processed": lambda: False,
        "kv_cache_uses_per_token_head_scales": lambda dtype: False,
        "is_quantized_kv_cache": lambda dtype: dtype.startswith("fp8"),
    }
    cut(root / QUANT / "kv_cache.py", {"BaseKVCacheMethod"}, space)
    cases = []
    values = (None, 0.05, 0.08, 1.0, 0.0, math.inf, math.nan)
    for k in values:
        for v in values:
            layer = SimpleNamespace(kv_cache_dtype="fp8_e4m3")
            for name, value in (("k", k), ("v", v), ("q", 1.0), ("prob", None)):
                where = "prob_scale" if name == "prob" else f"{name}_scale"
                setattr(layer, where, torch.tensor(-1.0 if value is None else value))
            for name in ("_k_scale", "_v_scale", "_q_scale", "_prob_scale"):
                setattr(layer, name, torch.tensor(0.0))
                setattr(layer, f"{name}_cpu", torch.tensor(0.0))
            warnings.clear()
            method = space["BaseKVCacheMethod"](None)
            error, text = said(partial(method.process_weights_after_loading, layer))
            used = [layer._k_scale.item(), layer._v_scale.item()]
            cases.append(
                {
                    "k": None if k is None else repr(k),
                    "v": None if v is None else repr(v),
                    "error": [error, text],
                    "used": [repr(one) for one in used],
                    "warned": [text for text in warnings if "1.0" in text],
                }
            )
    return cases


if __name__ == "__main__":
    folder, version, out = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    answers = {"kernels": kernels(folder), "blocks": blocks(folder), "scales": scales(folder)}
    with gzip.GzipFile(out, "wb", mtime=0) as file:
        file.write(json.dumps({"vllm": version, **answers}, separators=(",", ":")).encode())
