"""What calls of a library's function have in common: a check of what a person hands over."""

from mxlab.errors import InputError, choose, quote, whole_number
from mxlab.guards.facts import CallFacts, Dense, Quant, Runner
from mxlab.guards.systems import System
from mxlab.layout import LAYOUTS

MAX_SIZE = 2**40
ROWS = 128  # M where none is given: whole tiles, so that nothing stops for M alone
_MAX_GROUPS = 4096
_MAX_RANK = 8

#: torch's names, and Triton's for the elements of dot_scaled
DTYPES = (
    *("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"),
    *("float4_e2m1fn_x2", "uint8", "int8", "int16", "int32", "int64", "bool"),
    *("float64", "float32", "bfloat16", "float16"),
)
ORDERS = ("row", "column", "none")
_MAYBE = ("b_shuffled", "scales_pow2")  # None is not known

_WHY = "SGLang's rules do not apply"
#: SGLang's part of the facts, for every other system
NO_QUANT = Quant(
    method=None,
    origin="none",
    values={},
    fp8_config=False,
    mxfp8=False,
    serialized=False,
    block=None,
    activation=None,
    scale_fmt=None,
    why=_WHY,
)
NO_DENSE = Dense("none", None, _WHY)
NO_RUNNER = Runner("auto", "auto", None, "auto")


def check_call(call: CallFacts, asked: System) -> None:
    """Raise InputError for a call that cannot be written down.

    The function and its backend must be in ``asked.functions``; sizes are whole numbers from 0;
    dtypes carry torch's names. Whether the library takes them is what the guards answer.

    >>> from mxlab.guards.systems import system
    >>> check_call(CallFacts(function="mm", m=1, n=128, k=128), system("sglang"))
    Traceback (most recent call last):
    mxlab.errors.InputError: SGLang is asked about a model's layers: it has no functions to call
    """
    if not isinstance(call, CallFacts):
        raise InputError(f"call is {quote(call)}: expected mxlab.guards.CallFacts")
    if not asked.functions:
        raise InputError(
            f"{asked.name} is asked about a model's layers: it has no functions to call"
        )
    backends = choose(f"function of {asked.name}", call.function, asked.functions)
    choose(f"backend of {call.function}", call.backend, dict.fromkeys(("auto", *backends)))
    for name in ("m", "n", "k", "batch"):
        whole_number(f"{call.function}: {name}", getattr(call, name), 0, MAX_SIZE)
    _sizes(f"{call.function}: groups", call.groups, _MAX_GROUPS)
    for name in ("a_dtype", "b_dtype", "out_dtype"):
        choose(f"{call.function} {name}", getattr(call, name), dict.fromkeys(DTYPES))
    if call.scale_dtype is not None:
        choose(f"{call.function} scale_dtype", call.scale_dtype, dict.fromkeys(DTYPES))
    for name in ("a_layout", "b_layout"):
        choose(f"{call.function} {name}", getattr(call, name), dict.fromkeys(ORDERS))
    for name in ("scale_layout", "declared_layout"):
        if getattr(call, name) is not None:
            choose("layout", getattr(call, name), LAYOUTS)
    for name in ("a_scale_shape", "b_scale_shape"):
        shape = getattr(call, name)
        if shape is not None:
            _sizes(f"{call.function}: {name}", shape, _MAX_RANK)
    if call.recipe is not None:
        _recipe(call)
    for name in ("b_shuffled", "scales_pow2", "scale_contiguous", "bias", "training"):
        value = getattr(call, name)
        if not (isinstance(value, bool) or (value is None and name in _MAYBE)):
            raise InputError(f"{call.function}: {name} is {quote(value)}: expected True or False")


def _recipe(call: CallFacts) -> None:
    what = f"{call.function}: recipe"
    if not isinstance(call.recipe, tuple | list) or len(call.recipe) not in (0, 3):
        raise InputError(
            f"{what} is {quote(call.recipe)}: expected rows of A, rows of B and K of one scale, "
            "such as (1, 1, 32), or () where the argument is left out"
        )
    for size in call.recipe:
        whole_number(what, size, 1, MAX_SIZE)


def _sizes(what: str, sizes: object, most: int) -> None:
    if not isinstance(sizes, tuple | list) or len(sizes) > most:
        raise InputError(f"{what} is {quote(sizes)}: expected a tuple of at most {most} sizes")
    for size in sizes:
        whole_number(what, size, 0, MAX_SIZE)
