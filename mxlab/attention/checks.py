"""The checks of the real prologue, in the order in which it makes them, with its exact texts.

Texts come from the guard table, and the predicates of shapes too; strides, sizes and dtypes are
looked at here, where the arrays are. Nothing is written before the last check has passed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mxlab.attention.arguments import Arguments
from mxlab.attention.containers import Buffer
from mxlab.attention.order import order
from mxlab.errors import InputError
from mxlab.guards import Deployment, PrologueFacts, Status, facts, guard
from mxlab.guards.engine import fill
from mxlab.guards.findings import modulo


class GuardTripped(InputError):
    """A check of the real prologue does not hold.

    ``guard`` is its id, ``message`` the system's own text, ``because`` the predicate with numbers.
    """

    def __init__(self, guard: str, message: str, because: str) -> None:
        super().__init__(f"{message} ({guard}: {because})")
        self.guard, self.message, self.because = guard, message, because


Fault = str | None  # what is wrong, in numbers; None where the check holds


@dataclass(frozen=True, slots=True)
class Check:
    """One check: its guard id, what it finds, and which of the guard's texts is meant."""

    id: str
    find: Callable[[Arguments], Fault]
    message: int = 0


def _from_table(id: str) -> Callable[[Arguments], None]:
    def ask(a: Arguments) -> None:
        sfk, sfv = a.buffers.get("sfk"), a.buffers.get("sfv")
        subject = PrologueFacts(
            function=a.mode,
            dq=a.dq,
            dkv=a.dkv,
            slots=a.slots if a.mxfp8_quant or "k_buf" in a.buffers else 0,
            page_size=a.page_size,
            mxfp8=a.mxfp8_quant,
            sfk_shape=sfk.shape if sfk else None,
            sfv_shape=sfv.shape if sfv else None,
            sfk_contiguous=not sfk or sfk.contiguous,
            sfv_contiguous=not sfv or sfv.contiguous,
        )
        row = guard(id)
        found = row.check(facts(Deployment(gpu="b200"), prologue=subject))
        if found.status is Status.STOPS:
            text = row.messages[found.message or 0]
            raise GuardTripped(id, fill(text, found.values), found.because)

    return ask


def _strides(a: Arguments, *names: str) -> dict[str, Buffer]:
    return {name: a.buffers[name] for name in names if name in a.buffers}


def _tokens(a: Arguments) -> Fault:
    q, want = a.draft_token_num, a.sequences * a.draft_token_num
    if q > 0 and a.tokens == want:
        return None
    return f"T = {a.tokens}, B = {a.sequences}, q = {q}, B*q = {want}"


def _rows(a: Arguments) -> Fault:
    row, column = a.buffers["qkvr"].strides
    bad = a.tokens > 0 and (column != 1 or row % 8 != 0)
    return f"column stride {column}, {modulo('row stride', row, 8)}" if bad else None


def _offsets(a: Arguments) -> Fault:
    offsets = {"q_off": a.q_off, "k_off": a.k_off, "v_off": a.v_off}
    bad = [modulo(name, value, 8) for name, value in offsets.items() if value % 8]
    return ", ".join(bad) or None


def _si(a: Arguments) -> Fault:
    size = a.shape("si")[0]
    return f"si has {size}, T = {a.tokens}" if size < a.tokens else None


def _cu(a: Arguments) -> Fault:
    size = a.shape("cu")[0]
    return f"cu has {size}, B+1 = {a.sequences + 1}" if size != a.sequences + 1 else None


def _per_sequence(a: Arguments) -> Fault:
    sizes = {name: a.shape(name)[0] for name in ("cache_mask", "has_initial_state")}
    bad = [f"{name} has {size}" for name, size in sizes.items() if size != a.sequences]
    return f"{', '.join(bad)}, B = {a.sequences}" if bad else None


def _differ(buffers: Mapping[str, Buffer], axes: tuple[int, ...]) -> Fault:
    """Whether strides differ along an axis."""
    for axis in axes:
        found = {name: b.strides[axis] for name, b in buffers.items()}
        if len(set(found.values())) > 1:
            shown = ", ".join(f"{name} {stride}" for name, stride in found.items())
            return f"stride({axis}): {shown}"
    return None


def _last_stride(buffers: Mapping[str, Buffer]) -> Fault:
    bad = [f"{name} {b.strides[-1]}" for name, b in buffers.items() if b.strides[-1] != 1]
    return f"last stride: {', '.join(bad)}" if bad else None


def _slot_stride(a: Arguments) -> Fault:
    return _differ(_strides(a, "k_buf", "v_buf"), (0,))


def _channels(a: Arguments) -> Fault:
    return _last_stride(_strides(a, "k_cache", "v_cache"))


def _windows(a: Arguments) -> Fault:
    both = _strides(a, "k_inter", "v_inter")
    return _differ(both, (0, 1, 2)) or _last_stride(both)


def _cache_and_weight(a: Arguments) -> Fault:
    caches, weights = _strides(a, "k_cache", "v_cache"), _strides(a, "k_weight", "v_weight")
    return _differ(caches, (0, 1)) or _differ(weights, (0,))


def _lanes(a: Arguments) -> Fault:
    heads = a.q_heads + 2 * a.kv_heads
    if heads <= a.max_heads:
        return None
    return f"Hq + 2 Hkv = {a.q_heads} + 2 x {a.kv_heads} = {heads} against {a.max_heads}"


def _track_rows(a: Arguments) -> Fault:
    if not a.tracks or 0 not in a.shape("track_rows"):
        return None
    return f"track_mask has {a.shape('track_mask')[0]}, track_rows {a.shape('track_rows')}"


def _store(a: Arguments) -> Fault:
    return "do_store = False" if not a.do_store else None


def _page(a: Arguments) -> Fault:
    bad = a.page_size <= 0 or a.page_size % 32
    return modulo("page size", a.page_size, 32) if bad else None


def _kinds(a: Arguments, names: tuple[str, ...], kinds: tuple[str, ...]) -> Fault:
    bad = [f"{n} holds {b.kind}" for n, b in _strides(a, *names).items() if b.kind not in kinds]
    return ", ".join(bad) or None


def _codes(a: Arguments) -> Fault:
    return _kinds(a, ("k_buf", "v_buf"), ("e4m3", "byte"))


def _scale_dtype(a: Arguments) -> Fault:
    return _kinds(a, ("sfk", "sfv"), ("e8m0", "byte"))


def _aligned(elements: int) -> Callable[[Arguments], Fault]:
    def find(a: Arguments) -> Fault:
        stride = a.buffers["k_buf"].strides[0] if "k_buf" in a.buffers else 0
        return modulo("slot stride", stride, elements) if stride % elements else None

    return find


def _tau_size(a: Arguments) -> Fault:
    tau = a.buffers.get("log_scaling_tau")
    if tau is None:
        return None
    size = 1
    for side in tau.shape:
        size *= side
    return f"tau has {size}, T = {a.tokens}" if size < a.tokens else None


#: id -> check, of those that look at arrays; ``order.IMPLIED`` says what a caller cannot reach.
#: Tau has one text of its three: the wrapper flattens it to float32
CHECKS: dict[str, Check] = {
    check.id: check
    for check in (
        Check("ink-cu-t", _tokens),
        Check("ink-cu-row", _rows),
        Check("ink-cu-off", _offsets),
        Check("ink-cu-si", _si),
        Check("ink-cu-cu", _cu),
        Check("ink-cu-seq", _per_sequence),
        Check("ink-cu-kvstride", _slot_stride),
        Check("ink-cu-conv", _channels),
        Check("ink-cu-inter", _windows),
        Check("ink-cu-cwstride", _cache_and_weight),
        Check("ink-cu-block", _lanes),
        Check("ink-cu-track", _track_rows),
        Check("ink-cu-store", _store),
        Check("ink-cu-page", _page),
        Check("ink-cu-kvdtype", _codes),
        Check("ink-cu-sfdtype", _scale_dtype),
        Check("ink-cu-kvalign", _aligned(32)),
        Check("ink-cu-bf16align", _aligned(8)),
        Check("ink-cu-tau", _tau_size, message=2),
    )
}

_STORE = ("verify", "decode", "extend")  # the order of ink-cu-store's texts


def text(id: str, mode: str) -> str:
    """Return the text of a check as a mode says it.

    >>> text("ink-cu-store", "extend")
    'MXFP8 fused extend prologue requires do_store=True'
    """
    index = _STORE.index(mode) if id == "ink-cu-store" else CHECKS[id].message
    return guard(id).messages[index]


def check(a: Arguments) -> None:
    """Raise GuardTripped for the first check that does not hold."""
    for id in order(a.mode, mxfp8=a.mxfp8_quant):
        if id == "ink-cu-tau" and a.mode == "extend" and not a.tokens:
            continue  # extend returns before it looks
        if id not in CHECKS:
            _from_table(id)(a)
            continue
        because = CHECKS[id].find(a)
        if because is not None:
            raise GuardTripped(id, text(id, a.mode), because)
