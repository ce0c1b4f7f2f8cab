"""The CUDA host checks of Inkling's fused attention prologue (S9), one row each."""

from collections.abc import Callable
from dataclasses import dataclass

from mxlab.guards.engine import Finding, Guard
from mxlab.guards.facts import Facts, PrologueFacts
from mxlab.guards.findings import judge, modulo, skipped
from mxlab.guards.rows import row
from mxlab.guards.sglang_prologue import prologue_of, scale_shape

_CUDA = "kernels/jit/csrc/inkling/inkling_attn_prologue_fused.cuh"
_HARDWARE = "NVIDIA GPUs that run the prologue"
_ALL = ("verify", "decode", "extend")
_UNFUSED = "SGLANG_OPT_USE_INKLING_FUSED_ATTN_PROLOGUE=0 takes the unfused path"
_POOL = "hand over the pool's own buffers, not slices of them"

Test = Callable[[PrologueFacts], tuple[bool, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCheck:
    """One RuntimeCheck of the kernel's host code; ``holds`` says whether, and in numbers."""

    id: str
    text: str
    predicate: str  # what trips it
    meaning: str
    lines: str
    holds: Test
    functions: tuple[str, ...] = _ALL
    mxfp8: bool | None = None  # only with (without) MXFP8; None: always
    fix: str = _POOL
    related: tuple[str, ...] = ()


def _sf(p: PrologueFacts) -> tuple[tuple[int, ...], tuple[int, ...]]:
    wanted = scale_shape(p.slots, max(p.page_size, 1), p.dkv)
    return p.sfk_shape or wanted, p.sfv_shape or wanted


def _sf_shape(p: PrologueFacts) -> tuple[bool, str]:
    wanted = scale_shape(p.slots, max(p.page_size, 1), p.dkv)[1:]
    shapes = _sf(p)
    return all(tuple(s[1:]) == wanted for s in shapes), f"SFK, SFV {shapes}, wanted (*, {wanted})"


def _stride(p: PrologueFacts, which: str) -> int:
    given = p.k_stride if which == "k" else p.v_stride
    return p.dkv if given is None else given


def _tau(p: PrologueFacts) -> tuple[bool, str]:
    size = p.tokens if p.tau_size is None else p.tau_size
    because = f"log_tau {p.tau_dtype}, contiguous {p.tau_contiguous}, {size} of T = {p.tokens}"
    fits = p.tau_dtype is None or (
        p.tau_dtype == "float32" and p.tau_contiguous and size >= p.tokens
    )
    return fits, because


def _row_aligned(p: PrologueFacts) -> tuple[bool, str]:
    stride = p.dq + 2 * p.dkv if p.row_stride is None else p.row_stride
    return (
        p.last_stride == 1 and stride % 8 == 0,
        f"last stride {p.last_stride}, {modulo('row stride', stride, 8)}",
    )


def _sizes(which: str, wanted: Callable[[PrologueFacts], int], *, least: bool = False) -> Test:
    def holds(p: PrologueFacts) -> tuple[bool, str]:
        size = wanted(p) if getattr(p, which) is None else getattr(p, which)
        fits = size >= wanted(p) if least else size == wanted(p)
        return fits, f"{which.replace('_', ' ')} {size}, wanted {wanted(p)}"

    return holds


def _text(check: HostCheck) -> tuple[str, ...]:
    if check.id == "ink-cu-store":
        return tuple(check.text.format(w=w) for w in ("fused", "fused decode", "fused extend"))
    if check.id == "ink-cu-tau":
        return tuple(check.text.split(" / "))
    return (check.text,)


def _message(check: HostCheck, p: PrologueFacts) -> int:
    if check.id == "ink-cu-store":
        return _ALL.index(p.function)
    if check.id == "ink-cu-tau":
        return 0 if p.tau_dtype != "float32" else 1 if not p.tau_contiguous else 2
    return 0


def _guard(check: HostCheck) -> Guard:
    def look(facts: Facts) -> Finding:
        p = prologue_of(facts)
        if p.function not in check.functions:
            return skipped(f"{p.function} does not check this")
        if check.mxfp8 is not None and p.mxfp8 is not check.mxfp8:
            return skipped(f"mxfp8_quant is {p.mxfp8}")
        fits, because = check.holds(p)
        return judge(not fits, because, _message(check, p))

    return row(
        check.id,
        "prologue",
        "S9",
        "RuntimeError",
        _text(check),
        look,
        predicate=check.predicate,
        hardware=_HARDWARE,
        meaning=check.meaning,
        fixes=(check.fix,),
        source=f"{_CUDA}:{check.lines}",
        related=check.related,
    )


_CHECKS: tuple[HostCheck, ...] = (
    HostCheck(
        id="ink-cu-t",
        text="T != B*q",
        predicate="verify, and tokens != requests x draft tokens, or no draft tokens",
        meaning="Every request of a verify batch has the same number of tokens.",
        lines="404",
        functions=("verify",),
        holds=lambda p: (
            p.q_num > 0 and p.tokens == p.batch * p.q_num,
            f"T = {p.tokens}, B x q = {p.batch} x {p.q_num}",
        ),
        fix="pad the batch to whole requests",
    ),
    HostCheck(
        id="ink-cu-lanes16",
        text="q lanes must tile heads",
        predicate="dq / 8 % 16 != 0, which ink-cu-dims implies",
        meaning="16 threads of 8 values each hold one head of 128.",
        lines="406,810,1304",
        holds=lambda p: ((p.dq // 8) % 16 == 0, modulo("dq / 8", p.dq // 8, 16)),
        fix=_UNFUSED,
        related=("ink-cu-dims",),
    ),
    HostCheck(
        id="ink-cu-row",
        text="qkvr must be row-major with 16B-aligned rows",
        predicate="the last stride of qkvr is not 1, or its row stride % 8 != 0",
        meaning="Rows are read 16 bytes, eight bfloat16 values, at a time.",
        lines="407,811,1305",
        holds=_row_aligned,
        fix="hand over a contiguous qkvr",
        related=("ink-cu-off",),
    ),
    HostCheck(
        id="ink-cu-off",
        text="slice offsets must be 16B aligned",
        predicate="the offset of q, k or v in a row of qkvr % 8 != 0",
        meaning="Slices are read 16 bytes, eight bfloat16 values, at a time.",
        lines="409,813,1307",
        holds=lambda p: (
            all(offset % 8 == 0 for offset in p.offsets),
            f"offsets {tuple(p.offsets)} in elements, multiples of 8 wanted",
        ),
        fix=_UNFUSED,
        related=("ink-cu-row",),
    ),
    HostCheck(
        id="ink-cu-kvstride",
        text="kv buf stride mismatch",
        predicate="slots of the K and V buffers have different strides",
        meaning="One address serves both buffers.",
        lines="412,823,1320",
        holds=lambda p: (
            _stride(p, "k") == _stride(p, "v"),
            f"slot stride of K {_stride(p, 'k')}, of V {_stride(p, 'v')}",
        ),
        related=("ink-cu-kvalign",),
    ),
    HostCheck(
        id="ink-cu-conv",
        text="conv caches must be channel-contiguous",
        predicate="the last stride of a convolution cache is not 1",
        meaning="Channels of one position are read together.",
        lines="413,816,1313",
        holds=lambda p: (p.conv_last_stride == 1, f"last stride {p.conv_last_stride}"),
        related=("ink-cu-cwstride",),
    ),
    HostCheck(
        id="ink-cu-inter",
        text="inter buffers must be channel-contiguous with equal strides",
        predicate="verify, and the intermediate buffers of K and V differ in a stride, or their "
        "last one is not 1",
        meaning="One address serves both buffers.",
        lines="414",
        functions=("verify",),
        holds=lambda p: (p.inter_strides_equal, f"equal strides: {p.inter_strides_equal}"),
        related=("ink-cu-conv",),
    ),
    HostCheck(
        id="ink-cu-cwstride",
        text="k/v cache+weight strides must match",
        predicate="the convolution caches or weights of K and V differ in a stride",
        meaning="One address serves both.",
        lines="501,817,1314",
        holds=lambda p: (p.conv_strides_equal, f"equal strides: {p.conv_strides_equal}"),
        related=("ink-cu-conv",),
    ),
    HostCheck(
        id="ink-cu-si",
        text="si must cover T tokens",
        predicate="extend, and the sequence index has fewer entries than tokens",
        meaning="Each token needs the number of its request.",
        lines="1310",
        functions=("extend",),
        holds=_sizes("si_size", lambda p: p.tokens, least=True),
        fix="build si for every token of the batch",
        related=("ink-cu-cu", "ink-cu-seq"),
    ),
    HostCheck(
        id="ink-cu-cu",
        text="cu must be [B+1]",
        predicate="extend, and the cumulative lengths have not one entry more than requests",
        meaning="Request b owns the tokens from cu[b] to cu[b + 1].",
        lines="1311",
        functions=("extend",),
        holds=_sizes("cu_size", lambda p: p.batch + 1),
        fix="pass cumulative lengths with a leading 0",
        related=("ink-cu-si",),
    ),
    HostCheck(
        id="ink-cu-seq",
        text="per-seq arrays must be [B]",
        predicate="extend, and cache_mask or has_init has not one entry a request",
        meaning="Both are read once a request.",
        lines="1312",
        functions=("extend",),
        holds=_sizes("seq_size", lambda p: p.batch),
        fix="pass one entry a request",
        related=("ink-cu-cu",),
    ),
    HostCheck(
        id="ink-cu-track",
        text="extend track needs gather rows",
        predicate="extend with a track mask and no rows to gather",
        meaning="A mask says which requests are followed, the rows where their state goes.",
        lines="1323",
        functions=("extend",),
        holds=lambda p: (
            p.track_rows is None or p.track_rows > 0,
            f"track mask {p.track_rows is not None}, rows {p.track_rows}",
        ),
        fix="pass the rows with the mask",
        related=("ink-cu-seq",),
    ),
    HostCheck(
        id="ink-cu-store",
        text="MXFP8 {w} prologue requires do_store=True",
        predicate="MXFP8 without storing K and V",
        meaning="The kernel quantises K and V on their way into the cache and nowhere else.",
        lines="421,825,1326",
        mxfp8=True,
        holds=lambda p: (p.do_store, f"do_store {p.do_store}"),
        fix="do_store=True, or mxfp8_quant=False",
    ),
    HostCheck(
        id="ink-cu-32",
        text="MXFP8 dims must tile 32-element scale blocks",
        predicate="dq % 32 != 0 or dkv % 32 != 0, which ink-cu-dims implies",
        meaning="Q, K and V are quantised in blocks of 32.",
        lines="422,826,1327",
        mxfp8=True,
        holds=lambda p: (
            p.dq % 32 == 0 and p.dkv % 32 == 0,
            f"{modulo('dq', p.dq, 32)}, {modulo('dkv', p.dkv, 32)}",
        ),
        fix=_UNFUSED,
        related=("ink-py-dims",),
    ),
    HostCheck(
        id="ink-cu-qdtype",
        text="MXFP8 q_out must be fp8_e4m3",
        predicate="MXFP8 and q_out is not float8_e4m3fn",
        meaning="Q is quantised too; its buffer has to take E4M3.",
        lines="424,828,1329",
        mxfp8=True,
        holds=lambda p: (p.q_out_dtype in (None, "float8_e4m3fn"), f"q_out {p.q_out_dtype}"),
        fix="allocate q_out as float8_e4m3fn",
        related=("ink-cu-kvdtype", "ink-cu-qout"),
    ),
    HostCheck(
        id="ink-cu-kvdtype",
        text="MXFP8 KV buffers must be fp8_e4m3",
        predicate="MXFP8 and the K or V buffer is not float8_e4m3fn",
        meaning="The pool of an MXFP8 cache holds E4M3.",
        lines="425,829,1330",
        mxfp8=True,
        holds=lambda p: (p.kv_dtype == "float8_e4m3fn", f"K and V buffers {p.kv_dtype}"),
        fix="--kv-cache-dtype mxfp8",
        related=("ink-cu-sfdtype",),
    ),
    HostCheck(
        id="ink-cu-sfdtype",
        text="MXFP8 scale buffers must be passed as uint8 views",
        predicate="MXFP8 and a scale buffer is not uint8 (the pool's are float8_e8m0fnu)",
        meaning="The kernel writes exponent bytes; SGLang's wrapper passes views.",
        lines="428,832,1333",
        mxfp8=True,
        holds=lambda p: (p.sf_dtype == "uint8", f"scale buffers {p.sf_dtype}"),
        fix="pass buffer.view(torch.uint8)",
        related=("ink-cu-kvdtype",),
    ),
    HostCheck(
        id="ink-cu-qcontig",
        text="MXFP8 q_out must be contiguous",
        predicate="MXFP8 and q_out has other strides than (dq, 1)",
        meaning="Rows of Q follow each other.",
        lines="431,835,1336",
        mxfp8=True,
        holds=lambda p: (p.q_out_contiguous, f"q_out contiguous {p.q_out_contiguous}"),
        fix="allocate q_out contiguous",
        related=("ink-cu-sfq",),
    ),
    HostCheck(
        id="ink-cu-sfq",
        text="MXFP8 sfq must be contiguous [T, Hq, 4]",
        predicate="MXFP8 and the last strides of sfq are not (4, 1)",
        meaning="Q's scales are linear: four bytes a token and head.",
        lines="432,836,1337",
        mxfp8=True,
        holds=lambda p: (p.sfq_contiguous, f"sfq contiguous {p.sfq_contiguous}"),
        fix="allocate sfq contiguous",
        related=("ink-cu-qcontig",),
    ),
    HostCheck(
        id="ink-cu-5d",
        text="MXFP8 SFK/SFV must be 5D interleaved",
        predicate="MXFP8 and a scale buffer has not five axes; ink-py-shape looks before",
        meaning="A flat buffer, as pages other than 128 get, has three axes.",
        lines="437,841,1342",
        mxfp8=True,
        holds=lambda p: (all(len(s) == 5 for s in _sf(p)), f"SFK, SFV {_sf(p)}"),
        fix="--page-size 128",
        related=("ink-py-shape", "ink-cu-sfshape"),
    ),
    HostCheck(
        id="ink-cu-sfshape",
        text="MXFP8 SFK/SFV must use [pages, Hkv, 32, page/32, 4] layout",
        predicate="MXFP8 and the last four sizes are not (Hkv, 32, page / 32, 4); the number of "
        "pages is not looked at",
        meaning="The tile of one page and KV head.",
        lines="438,842,1343",
        mxfp8=True,
        holds=_sf_shape,
        fix="--page-size 128",
        related=("ink-py-shape", "ink-cu-sfstride"),
    ),
    HostCheck(
        id="ink-cu-sfstride",
        text="MXFP8 SFK/SFV must be contiguous BlockScaledBasicChunk layout",
        predicate="MXFP8 and the inner strides of a scale buffer are not those of a contiguous one",
        meaning="The kernel computes scale addresses itself.",
        lines="443,847,1348",
        mxfp8=True,
        holds=lambda p: (
            p.sfk_contiguous and p.sfv_contiguous,
            f"contiguous: SFK {p.sfk_contiguous}, SFV {p.sfv_contiguous}",
        ),
        related=("ink-py-contig",),
    ),
    HostCheck(
        id="ink-cu-kvalign",
        text="MXFP8 kv buf row alignment",
        predicate="MXFP8 and the stride of a slot % 32 != 0",
        meaning="A slot starts at a whole block of 32 values.",
        lines="449,853,1354",
        mxfp8=True,
        holds=lambda p: (_stride(p, "k") % 32 == 0, modulo("slot stride", _stride(p, "k"), 32)),
        related=("ink-cu-bf16align", "ink-cu-kvstride"),
    ),
    HostCheck(
        id="ink-cu-bf16align",
        text="kv buf rows must be 16B aligned",
        predicate="without MXFP8, and the stride of a slot % 8 != 0",
        meaning="Rows are written 16 bytes, eight bfloat16 values, at a time.",
        lines="451,855,1356",
        mxfp8=False,
        holds=lambda p: (_stride(p, "k") % 8 == 0, modulo("slot stride", _stride(p, "k"), 8)),
        related=("ink-cu-kvalign",),
    ),
    HostCheck(
        id="ink-cu-qout",
        text="q_out dtype mismatch",
        predicate="without MXFP8, and q_out is not the input's bfloat16",
        meaning="Q leaves in the dtype in which it came.",
        lines="452,856,1357",
        mxfp8=False,
        holds=lambda p: (p.q_out_dtype in (None, "bfloat16"), f"q_out {p.q_out_dtype}"),
        fix="allocate q_out as bfloat16",
        related=("ink-cu-qdtype",),
    ),
    HostCheck(
        id="ink-cu-tau",
        text="log_tau must be fp32 / log_tau must be contiguous / log_tau smaller than T",
        predicate="log_tau is given and is not float32, not contiguous, or has fewer entries than "
        "tokens",
        meaning="One temperature a token.",
        lines="457,861,1363",
        holds=_tau,
        fix="pass a contiguous float32 tensor with one entry a token",
    ),
)

GUARDS: tuple[Guard, ...] = tuple(_guard(check) for check in _CHECKS)
