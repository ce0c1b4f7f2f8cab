"""The three entry points: verify, extend and decode, with the upstream argument names.

Every array is NumPy's (bfloat16 as ml_dtypes' type or as uint16 bits, codes and scale bytes as
uint8) or torch's. Buffers are written in place. First the arguments are checked, in this order:
what makes no call at all, the real prologue's own guards (``checks``), then what it would read or
write out of bounds (``ranges``). Nothing is written before the last check has passed.

=================  ===============================================================================
argument           meaning
=================  ===============================================================================
qkvr               bfloat16 [T, row]; q, k and v are its columns from ``q_off``, ``k_off``,
                   ``v_off``, ``dq`` and ``dkv`` of them, heads of 128
k_cache, v_cache   bfloat16 [pool, W - 1, dkv]: raw inputs before T, the newest in the last row
cache_indices      int [B]: pool row of a sequence, -1 for a padding sequence
cache_mask         bool [B]: whether the history counts in the convolution
k_weight, v_weight bfloat16 [dkv, W]: tap W - 1 is the token itself
q_gamma, k_gamma   bfloat16 [128]
loc                int [T]: slot of a token's K and V; negative stores nothing
k_buf, v_buf       [slots, KV heads, 128]: bfloat16, or E4M3 codes with ``mxfp8_quant``
sfk, sfv           scale bytes [slots // page, KV heads, 32, page / 32, 4], with ``mxfp8_quant``
log_scaling_tau    float [T]: a factor of Q, before it is quantised
max_heads          the limit on query heads + 2 KV heads: the real kernel's is 64, ours 4,096
backend            ``reference`` (NumPy), ``triton`` (one launch), or ``auto``: triton on a GPU
validate           False leaves the index ranges unread, which on a GPU waits for the device; a
                   slot out of range is then skipped, and two writers of one place race
=================  ===============================================================================

Bad input: negative slots store nothing; a slot past the last whole page, two tokens in one slot,
or an index out of range raises InputError; NaN in Q or K makes its head NaN, which MXFP8 stores as
byte 19 and codes FE; T = 0 returns empty outputs. The kernels take 2 to 4 taps, the reference 8.
Source: sglang 0.5.23, kernels/jit/csrc/inkling/inkling_attn_prologue_fused.cuh.
"""

from typing import Any, NamedTuple

from mxlab.attention import checks, ranges, reference
from mxlab.attention.arguments import Arguments
from mxlab.attention.containers import is_tensor
from mxlab.errors import InputError, choose, quote


class Prologue(NamedTuple):
    """What a prologue returns: new arrays of the kind that ``qkvr`` is.

    ``q`` [T, dq] is bfloat16, or E4M3 codes with ``q_scale`` [T, query heads, 4]; ``k`` and ``v``
    [T, dkv] are the bfloat16 values that were stored or quantised.
    """

    q: Any
    k: Any
    v: Any
    q_scale: Any


def prologue_verify(
    qkvr: Any,
    *,
    draft_token_num: int,
    k_inter: Any,
    v_inter: Any,
    backend: str = "auto",
    validate: bool = True,
    **common: Any,
) -> Prologue:
    """Run the prologue on draft tokens: T = B x draft_token_num, the history is only read.

    ``k_inter``, ``v_inter`` bfloat16 [B or more, q, W - 1, dkv]: ``inter[s, i]`` becomes what the
    history must be if drafts 0..i of sequence s are accepted; rows of padding stay. The other
    arguments and the errors are those of the module.
    """
    a = _arguments(
        common,
        mode="verify",
        qkvr=qkvr,
        draft_token_num=draft_token_num,
        k_inter=k_inter,
        v_inter=v_inter,
    )
    return _run(a, backend, validate)


def prologue_extend(
    qkvr: Any,
    *,
    cu: Any,
    si: Any,
    has_initial_state: Any,
    track_rows: Any = None,
    track_mask: Any = None,
    track_dst: Any = None,
    do_cache_update: bool = True,
    backend: str = "auto",
    validate: bool = True,
    **common: Any,
) -> Prologue:
    """Run the prologue on sequences of any length: token t belongs to ``si[t]``, from ``cu`` on.

    ``cu`` int [B + 1], ``si`` int [T or more], ``has_initial_state`` bool [B]: whether the history
    counts in its update. At its end the history of a sequence is its last W - 1 rows;
    ``track_mask`` [B] then copies the rows ``track_rows`` [B, W - 1] to pool row ``track_dst``.
    The other arguments and the errors are those of the module.
    """
    a = _arguments(
        common,
        mode="extend",
        qkvr=qkvr,
        cu=cu,
        si=si,
        has_initial_state=has_initial_state,
        track_rows=track_rows,
        track_mask=track_mask,
        track_dst=track_dst,
        do_cache_update=do_cache_update,
    )
    return _run(a, backend, validate)


def prologue_decode(
    qkvr: Any,
    *,
    track_mask: Any = None,
    track_indices: Any = None,
    backend: str = "auto",
    validate: bool = True,
    **common: Any,
) -> Prologue:
    """Run the prologue on one token a sequence: the history moves up by one row, in place.

    ``track_mask`` bool [T] copies the new history to pool row ``track_indices[t]`` too. Padding
    sequences store nothing and move nothing. The other arguments and the errors are those of the
    module.
    """
    a = _arguments(
        common, mode="decode", qkvr=qkvr, track_mask=track_mask, track_indices=track_indices
    )
    return _run(a, backend, validate)


_NEEDED = (
    *("q_off", "k_off", "v_off", "dq", "dkv", "k_cache", "v_cache", "cache_indices", "cache_mask"),
    *("k_weight", "v_weight", "q_gamma", "k_gamma", "eps", "loc", "k_buf", "v_buf"),
)
_OPTIONAL = (
    *("activation", "use_residual", "do_store", "mxfp8_quant", "sfk", "sfv", "page_size"),
    *("log_scaling_tau", "max_heads"),
)


def _arguments(common: dict[str, Any], **own: Any) -> Arguments:
    known = dict.fromkeys((*_NEEDED, *_OPTIONAL))
    for name in common:
        choose("argument", name, known)
    stores = common.get("do_store", True)
    for name in _NEEDED:
        if name not in common and (stores or name not in ("loc", "k_buf", "v_buf")):
            raise InputError(f"{name} is missing: prologue_{own['mode']} needs it")
    given: dict[str, Any] = {"loc": None, "k_buf": None, "v_buf": None}
    return Arguments(**(given | common | own))


def _run(a: Arguments, backend: str, validate: bool) -> Prologue:
    names = {name: name for name in ("auto", "reference", "triton")}
    backend = choose("backend", backend, names)
    if not isinstance(validate, bool):
        raise InputError(f"validate is {quote(validate)}: expected True or False")
    ranges.scalars(a)
    checks.check(a)
    ranges.shapes(a)
    ranges.outputs(a)
    if validate:
        ranges.indices(a)
    if backend == "auto":
        gpu = is_tensor(a.qkvr) and a.qkvr.device.type != "cpu"
        backend = "triton" if gpu else "reference"
    if backend == "reference":
        return Prologue(*reference.run(a))
    try:
        from mxlab.kernels.prologue import run
    except ImportError as error:
        raise InputError(f"backend 'triton' needs the extra mxlab[torch]: {error}") from None
    return Prologue(*run(a))
