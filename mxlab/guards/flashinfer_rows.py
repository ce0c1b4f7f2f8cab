"""What FlashInfer's rows have in common: backends, capabilities, lengths of scale buffers."""

from mxlab.guards.call_rows import Library, declared
from mxlab.guards.engine import Finding
from mxlab.guards.facts import CallFacts, Facts
from mxlab.guards.findings import pad, stops

VERSION = "0.7.2"
LIBRARY = Library("flashinfer", f"flashinfer_python {VERSION}")
row = LIBRARY.row

GEMM = "flashinfer/gemm/gemm_base.py"
UTILS = "flashinfer/utils.py"
QUANT = "flashinfer/quantization/fp8_quantization.py"
CSRC = "flashinfer/data/csrc"

BLACKWELL = "SM100 to SM121"
SWIZZLED_FIX = "mxfp8_quantize(..., is_sf_swizzled_layout=True) makes the scales"

_DATACENTRE = (100, 103, 107)
_ALL = (*_DATACENTRE, 110, 120, 121)
#: function -> backend -> compute capabilities
CAPABILITIES: dict[str, dict[str, tuple[int, ...]]] = {
    "mm_mxfp8": {
        "cutlass": _ALL,
        "trtllm": _DATACENTRE,
        "cute-dsl": _DATACENTRE,
        "cutedsl_low_latency": _DATACENTRE,
        "cudnn": _ALL,
        "b12x": (120, 121),
    },
    "bmm_mxfp8": {"cudnn": _ALL, "cutlass": (120, 121)},
}
GROUPED = "group_gemm_mxfp8_mxfp4_nt_groupwise"
GROUPED_CAPABILITIES = _ALL

#: function -> its backends
FUNCTIONS: dict[str, tuple[str, ...]] = {
    "mm_mxfp8": tuple(CAPABILITIES["mm_mxfp8"]),
    "bmm_mxfp8": tuple(CAPABILITIES["bmm_mxfp8"]),
    GROUPED: (),
    "mxfp8_quantize": ("cuda", "cute-dsl"),
    "mxfp8_grouped_quantize": ("cutile", "cake"),
    "block_scale_interleave": (),
    "mxfp8_dequantize_host": (),
}
#: the backend that a function without an automatic choice takes
DEFAULTS = {"mxfp8_quantize": "cuda", "mxfp8_grouped_quantize": "cutile"}


def capability(facts: Facts) -> int:
    """Return the compute capability as FlashInfer counts it, 0 without a GPU."""
    return facts.platform.capability or 0


def sm12x(facts: Facts) -> bool:
    """Tell what is_sm12x_supported() says: the toolkit counts too (utils.py:698)."""
    cap = capability(facts)
    return cap // 10 == 12 and facts.platform.toolkit >= ((12, 9) if cap % 10 else (12, 8))


def swizzled_length(rows: int, k: int, high: int = 128) -> int:
    """Return the length of a swizzled 1-D scale buffer (gemm_base.py:9026).

    >>> swizzled_length(6, 576), swizzled_length(6, 576, high=8)
    (2560, 160)
    """
    return pad(rows, high) * pad(k, 128) // 32


def flag_8x4(call: CallFacts) -> bool:
    """Tell whether the caller passes use_8x4_sf_layout=True."""
    return declared(call) == "tile_8x4"


def scale_shapes(call: CallFacts) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shapes of a_descale and b_descale: as given, or as the named layout has them.

    Weights stay in 128x4 where the activations are in 8x4, as mm_mxfp8's documentation asks.
    """
    name = declared(call)
    if name == "linear":
        made: tuple[tuple[int, ...], tuple[int, ...]] = (
            (call.m, call.k // 32),
            (call.k // 32, call.n),
        )
    else:
        high = 8 if name == "tile_8x4" else 128
        made = (swizzled_length(call.m, call.k, high),), (swizzled_length(call.n, call.k),)
    a = made[0] if call.a_scale_shape is None else tuple(call.a_scale_shape)
    b = made[1] if call.b_scale_shape is None else tuple(call.b_scale_shape)
    return a, b


def one_dimensional(call: CallFacts) -> bool:
    """Tell whether both scale buffers are 1-D, which is how FlashInfer knows a swizzled one."""
    return all(len(shape) == 1 for shape in scale_shapes(call))


def k_contiguous(call: CallFacts) -> tuple[bool, bool]:
    """Tell whether K is the contiguous axis of A and of B; one row of A is contiguous anyhow."""
    return call.a_layout == "row" or call.m == 1, call.b_layout == "column"


def torch_size(shape: tuple[int, ...]) -> str:
    """Return a shape as torch prints it.

    >>> torch_size((1008,)), torch_size((4, 8))
    ('torch.Size([1008])', 'torch.Size([4, 8])')
    """
    return f"torch.Size([{', '.join(map(str, shape))}])"


def where(facts: Facts) -> str:
    """Describe the GPU: ``B200, capability 100``."""
    cap = facts.platform.capability
    return f"{facts.platform.gpu.label}, {'no GPU' if cap is None else f'capability {cap}'}"


def declared_shape_error(call: CallFacts) -> Finding | None:
    """Return what mm_mxfp8 says about the shapes of the scales, None where it takes them.

    A 2-D a_descale makes the checker read the length of a 1-D b_descale as n * k, and the 8x4
    flag is applied to b_descale too. Source: gemm_base.py:6066.
    """
    a, b = scale_shapes(call)
    linear = len(a) == 2
    high = 8 if flag_8x4(call) else 128
    for name, shape, rows in (("a", a, call.m), ("b", b, call.n)):
        full = f"{name}_descale"
        got = torch_size(shape)
        if len(shape) == 1:
            length = rows * call.k if linear else swizzled_length(rows, call.k, high)
            if shape[0] != length:
                because = f"{full} needs {length} bytes for {rows} rows and K = {call.k}"
                return stops(because, 0, name=full, length=length, got=got)
        elif len(shape) == 2:
            operand = "a.shape[1]" if name == "a" else "b.shape[0]"
            if call.k % 32:
                because = f"K = {call.k} % 32 = {call.k % 32}"
                return stops(because, 1, name=full, operand=operand, k=call.k)
            wanted = (rows, call.k // 32) if name == "a" else (call.k // 32, rows)
            if shape != wanted:
                values = {"name": full, "rows": wanted[0], "cols": wanted[1], "got": got}
                return stops(f"{full} needs shape {wanted}", 2, **values)
        else:
            return stops(f"{full} has {len(shape)} dimensions", 3, name=full, got=got)
    return None
