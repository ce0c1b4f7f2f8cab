"""Record what FlashInfer 0.7.2's own Python checks say, as an oracle for the FlashInfer guards.

Not a test. Unpack the wheel (``pip download --no-deps flashinfer-python==0.7.2``) and run, where
torch is installed (no GPU is needed)::

    python tests/record_flashinfer.py FOLDER_OF_THE_WHEEL tests/data/flashinfer-outcomes.json.gz

The real functions run on meta tensors under virtual GPUs and CUDA versions: only the compute
capability, the CUDA version and what lies behind the checks are replaced, and packages that are not
installed are imported as empty shells. What is recorded: the error's class and text, or none where
every Python check let the call pass, and what ``backend="auto"`` chose.
"""

import gzip
import json
import random
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

CAPABILITIES = {
    **{75: "t4", 80: "a100", 89: "l40s", 90: "h100", 100: "b200", 103: "b300"},
    **{110: "thor", 120: "rtx5090", 121: "gb10"},
}
#: what mm_mxfp8 does not need: third-party packages, and FlashInfer's kernels and other features
SHELLS = (
    *("tvm_ffi", "cuda", "cutlass", "pynvml", "cudnn", "tqdm", "requests", "nvidia", "einops"),
    *("click", "tabulate", "ninja", "triton", "tilelang"),
    *(f"flashinfer.{name}" for name in ("gemm.kernels", "fused_moe", "moe_ep", "comm", "cake")),
    *(f"flashinfer.{name}" for name in ("mla", "kda", "gdn", "mamba", "cutile", "msa_ops")),
    *(f"flashinfer.{name}" for name in ("prims_ts", "attention", "diffusion_ops", "cudnn")),
    *(f"flashinfer.{name}" for name in ("experimental", "mega", "decode", "prefill", "pod")),
    *(f"flashinfer.{name}" for name in ("sparse", "cascade", "gemm.gemm_mm_fp4")),
)


class Shell:
    """Stands for anything: it can be called, indexed, subclassed, and used as a decorator."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        """Take anything."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        plain = len(args) == 1 and callable(args[0]) and not kwargs
        return args[0] if plain else Shell()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Shell()

    def __getitem__(self, key: object) -> Any:
        return Shell()

    def __or__(self, other: object) -> Any:
        return Shell()

    __ror__ = __or__

    def __iter__(self) -> Any:
        return iter(())

    def __mro_entries__(self, bases: object) -> tuple[type, ...]:
        return (object,)


class ShellModule(ModuleType):
    """A module in which every name is a Shell."""

    __path__: list[str] = []  # noqa: RUF012

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Shell()


class Shells(MetaPathFinder, Loader):
    """Imports the names of SHELLS as empty modules."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Claim the names that are not needed."""
        return ModuleSpec(name, self, is_package=True) if name.startswith(SHELLS) else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return a shell."""
        return ShellModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Run nothing."""


class Reached(Exception):
    """Every check let the call pass."""


class Version:
    """A CUDA version as FlashInfer reads it."""

    def __init__(self, text: str) -> None:
        self.text, self.major = text, int(text.split(".")[0])

    def __str__(self) -> str:
        return self.text


class FlashInfer:
    """The real functions, on a virtual GPU."""

    def __init__(self, folder: str) -> None:
        sys.path.insert(0, folder)
        sys.meta_path.insert(0, Shells())
        self.torch = import_module("torch")
        self.gemm = import_module("flashinfer.gemm.gemm_base")
        b12x = import_module("flashinfer.gemm.gemm_mm_mxfp8_cute_dsl")
        self.capability, self.cuda = 100, "12.9"
        for module in (self.gemm, b12x, import_module("flashinfer.utils")):
            vars(module)["get_compute_capability"] = lambda device: divmod(self.capability, 10)
        vars(b12x)["get_cuda_version"] = lambda: Version(self.cuda)
        vars(b12x)["_b12x_mxfp8_dsl_supported"] = lambda: True
        gemm = vars(self.gemm)
        gemm["_check_cute_dsl_availability"] = lambda: None
        gemm["_check_cute_dsl_arch"] = lambda device: None
        assert gemm["CUDNN_AVAILABLE"]
        assert gemm["CUTE_DSL_AVAILABLE"]

    def tensor(self, shape: tuple[int, ...], dtype: str, *, swapped: bool = False) -> Any:
        """Return a meta tensor; a swapped one has its last two axes the other way round."""
        if swapped:
            shape = (*shape[:-2], shape[-1], shape[-2])
        made = self.torch.empty(shape, dtype=getattr(self.torch, dtype), device="meta")
        return made.transpose(-1, -2) if swapped else made

    def ask(self, function: str, *args: Any, **kwargs: Any) -> tuple[list[str] | None, Any]:
        """Call the function; return its error and what auto chose."""
        self.torch.version.cuda = self.cuda
        gemm = vars(self.gemm)

        def stop(*args: object, **kwargs: object) -> None:
            raise Reached

        def cudnn(a: Any, b: Any, *rest: object) -> None:
            self.gemm._check_mxfp8_gemm_strides(a, b, "cuDNN")
            raise Reached

        gemm["_get_cache_buf"] = stop if function != "bmm_mxfp8" else lambda *a: None
        gemm["_load_gemm_sm120_mxfp8_module"], gemm["mxfp8_gemm_sm100"] = stop, cudnn
        called = gemm[function]
        called.suitable_auto_backends = None
        try:
            called(*args, **kwargs)
        except Reached:
            return None, called.suitable_auto_backends
        except Exception as error:
            return [type(error).__name__, str(error)], None
        raise AssertionError("the call went past the checks")


def length(rows: int, k: int, high: int = 128) -> int:
    """Return the length of a swizzled scale buffer."""
    return -(-rows // high) * high * -(-k // 128) * 4


def mm(fi: FlashInfer, r: random.Random) -> tuple[dict[str, Any], Any]:
    """One call of mm_mxfp8."""
    names = ("cutlass", "trtllm", "cute-dsl", "cutedsl_low_latency", "cudnn", "b12x")
    backend = r.choice(["auto", "auto", *names])
    m = r.choice([1, 2, 8, 9, 16, 96, 100, 128, 130, 256])
    n, k = r.choice([128, 160, 256, 512]), r.choice([128, 256, 384, 512, 160])
    if r.random() < 0.55:
        n = r.choice([32, 96, 120, 128, 136, 144, 160, 256, 288, 512, 5120])
        k = r.choice([32, 96, 128, 136, 160, 192, 256, 288, 320, 512, 576, 640, 768])
    layout = r.choice(["tile_128x4"] * 5 + ["tile_8x4"] * 2 + ["linear"])
    dtypes = [
        r.choice(["bfloat16", "float8_e5m2", "uint8"]) if r.random() < 0.06 else "float8_e4m3fn"
        for _ in "ab"
    ]
    scale = "uint8" if r.random() < 0.94 else r.choice(["float8_e8m0fnu", "float32", "int32"])
    out = r.choice(["bfloat16"] * 6 + ["float16"] * 3 + ["float32"])
    orders = ["row" if r.random() < 0.95 else "column", "column" if r.random() < 0.9 else "row"]
    high = 8 if layout == "tile_8x4" else 128
    shapes: list[tuple[int, ...]] = [(length(m, k, high),), (length(n, k),)]
    if layout == "linear":
        shapes = [(m, k // 32), (k // 32, n)]
    given: list[tuple[int, ...] | None] = [None, None]
    for i, shape in enumerate(shapes):
        chance = r.random()
        if chance < 0.06:
            given[i] = (shape[0] + r.choice([-16, 16, 512] if shape[0] > 16 else [16]), *shape[1:])
        elif chance < 0.09:
            given[i] = (m, k // 32) if i == 0 else (k // 32, n)
        elif chance < 0.11:
            given[i] = (1, *shape)
        shapes[i] = given[i] or shape
    answer = fi.ask(
        "mm_mxfp8",
        fi.tensor((m, k), dtypes[0], swapped=orders[0] == "column"),
        fi.tensor((k, n), dtypes[1], swapped=orders[1] == "column"),
        fi.tensor(shapes[0], scale),
        fi.tensor(shapes[1], scale),
        out_dtype=getattr(fi.torch, out),
        use_8x4_sf_layout=layout == "tile_8x4",
        backend=backend,
    )
    call = {
        **{"function": "mm_mxfp8", "m": m, "n": n, "k": k, "backend": backend},
        **{"a_dtype": dtypes[0], "b_dtype": dtypes[1], "scale_dtype": scale, "out_dtype": out},
        **{"a_layout": orders[0], "b_layout": orders[1], "scale_layout": layout},
        **{"a_scale_shape": given[0], "b_scale_shape": given[1]},
    }
    return call, answer


def bmm(fi: FlashInfer, r: random.Random) -> tuple[dict[str, Any], Any]:
    """One call of bmm_mxfp8."""
    backend = r.choice(["auto", "cudnn", "cutlass"])
    b, m = r.choice([1, 2, 5]), r.choice([1, 100, 128, 130])
    n, k = r.choice([96, 128, 160, 200, 256]), r.choice([96, 128, 160, 256, 288])
    out = r.choice(["bfloat16"] * 5 + ["float16"] * 2 + ["float32"])
    orders = ["row" if r.random() < 0.9 else "column", "column" if r.random() < 0.8 else "row"]
    shapes: list[tuple[int, ...]] = [(length(b * m, k),), (length(b * n, k),)]
    given: list[tuple[int, ...] | None] = [None, None]
    for i, shape in enumerate(shapes):
        chance = r.random()
        if chance < 0.2:
            given[i] = (shape[0] + 512,) if chance < 0.1 else (shape[0] // 4, 4)
        shapes[i] = given[i] or shape
    answer = fi.ask(
        "bmm_mxfp8",
        fi.tensor((b, m, k), "float8_e4m3fn", swapped=orders[0] == "column"),
        fi.tensor((b, k, n), "float8_e4m3fn", swapped=orders[1] == "column"),
        fi.tensor(shapes[0], "uint8"),
        fi.tensor(shapes[1], "uint8"),
        getattr(fi.torch, out),
        backend=backend,
    )
    call = {
        **{"function": "bmm_mxfp8", "batch": b, "m": m, "n": n, "k": k, "backend": backend},
        **{"out_dtype": out, "a_layout": orders[0], "b_layout": orders[1]},
        **{"a_scale_shape": given[0], "b_scale_shape": given[1]},
    }
    return call, answer


def grouped(fi: FlashInfer, r: random.Random) -> tuple[dict[str, Any], Any]:
    """One call of the grouped GEMM."""
    groups = [r.choice([4, 8, 12, 100]) for _ in range(r.choice([1, 2, 5]))]
    g, m = len(groups), sum(groups)
    n, k = r.choice([8, 12, 64, 100, 128]), r.choice([96, 128, 192, 256, 288])
    a = r.choice(["float8_e4m3fn"] * 4 + ["float8_e5m2", "bfloat16"])
    b = r.choice(["uint8"] * 6 + ["float8_e4m3fn"])
    scale = r.choice(["uint8"] * 6 + ["float32"])
    out = r.choice(["bfloat16"] * 4 + ["float16", "float32"])
    function = "group_gemm_mxfp8_mxfp4_nt_groupwise"
    answer = fi.ask(
        function,
        fi.tensor((m, k), a),
        fi.tensor((g, n, k // 2), b),
        fi.tensor((m, k // 32), scale),
        fi.tensor((g, n, k // 32), scale),
        fi.tensor((g + 1,), "int32"),
        out_dtype=getattr(fi.torch, out),
    )
    call = {
        **{"function": function, "m": m, "n": n, "k": k, "groups": groups},
        **{"a_dtype": a, "b_dtype": b, "scale_dtype": scale, "out_dtype": out},
    }
    return call, answer


def main(folder: str, path: str, number: int = 3000, seed: int = 5175) -> None:
    """Record ``number`` calls of mm_mxfp8, and a quarter and an eighth of it of the others."""
    fi, r = FlashInfer(folder), random.Random(seed)
    ask: tuple[tuple[Callable[..., Any], int], ...] = ((mm, 1), (bmm, 4), (grouped, 8))
    cases = []
    for one, share in ask:
        for _ in range(number // share):
            fi.capability = r.choice([*CAPABILITIES, 100, 103, 110, 120, 121])
            fi.cuda = r.choice(["12.4", "12.8", "12.9", "13.0"])
            call, (error, auto) = one(fi, r)
            gpu = CAPABILITIES[fi.capability]
            cases.append({"gpu": gpu, "toolkit": fi.cuda, "call": call, "error": error})
            cases[-1] |= {"auto": auto} if auto else {}
    text = json.dumps({"flashinfer": "0.7.2", "cases": cases}, separators=(",", ":"))
    Path(path).write_bytes(gzip.compress(text.encode(), 9, mtime=0))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
