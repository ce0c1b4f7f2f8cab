"""Library profiles: what each library makes of a block, quirks included, for E4M3."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from mxlab.errors import InputError, nearest, quote
from mxlab.profiles.steps import Amax, Cast, LibraryRaises, Round, Scale, divide, single

_OVERFLOWS = 247  # the one scale byte of finite data whose largest products exceed float32


@dataclass(frozen=True, kw_only=True)
class LibraryProfile:
    """One library's quantiser in one mode.

    ``round_input`` is the dtype of the tensor: values are rounded to it first. ``vectors`` names
    the recorded runs that it reproduces byte for byte. ``scale_only``: the library's function
    gives a scale alone, the codes are the plain saturating cast. ``flush_input``: subnormal inputs
    are zeros. ``read_back``: the library returns float32 products; those that overflow read as 448.
    """

    id: str
    library: str
    version: str
    rule: str
    amax: Amax
    scale: Scale
    cast: Cast
    rounding: str = "nearest even, saturating"
    dtypes: str = "float32, bfloat16"
    round_input: Round = single
    scale_only: bool = False
    flush_input: bool = False
    read_back: bool = False
    note: str = ""
    source: str
    obtained: str
    vectors: tuple[str, ...] = ()

    def quantize(self, values: Sequence[float]) -> tuple[int, tuple[int, ...]]:
        """Return the scale byte and the codes of 32 float32 values.

        Raises InputError where the library itself raises.

        >>> from mxlab.profiles import get_profile
        >>> byte, codes = get_profile("deepgemm").quantize([0.0] * 32)
        >>> byte, codes[0]
        (105, 0)
        """
        given = [self.round_input(v) for v in values]
        if self.flush_input:
            given = [v * 0.0 if abs(v) < 2.0**-126 else v for v in given]
        try:
            byte, divisor = self.scale(self.amax(given))
        except LibraryRaises as error:
            raise InputError(
                f"profile {self.id!r}: {self.library} {self.version} itself raises for this block "
                f"with NaN: {error}"
            ) from None
        codes = [self.cast(divide(v, divisor)) for v in given]
        if self.read_back and byte == _OVERFLOWS:
            codes = [
                c & 0x80 | 0x7E if c & 0x7F >= 0x78 else c for c in codes
            ]  # 256 * 2^120 and above
        return byte, tuple(codes)

    @cached_property
    def policies(self) -> dict[str, str]:
        """What becomes of zeros, tiny values, Inf and NaN, found by quantising such blocks."""
        ones = [1.0] * 31
        special = {
            "zero": ([0.0] * 32, "0"),
            "tiny": ([2.0**-133] * 32, "2^-133"),
            "inf": ([float("inf"), *ones], "Inf"),
            "nan": ([*ones[:-1], float("nan"), 1.0], "NaN"),
        }
        return {name: self._says(*case) for name, case in special.items()} | {
            "rounding": self.rounding
        }

    def _says(self, values: list[float], label: str) -> str:
        try:
            byte, codes = self.quantize(values)
        except InputError:
            return "raises"
        at = next((i for i, v in enumerate(values) if v != 1.0), 0)
        others = f", 1.0 0x{codes[31]:02x}" if values[31] == 1.0 else ""
        return f"byte {byte}, {label} 0x{codes[at]:02x}{others}"


def _table() -> dict[str, LibraryProfile]:
    from mxlab.profiles.frameworks import FRAMEWORKS
    from mxlab.profiles.kernels import KERNELS

    return {row.id: row for row in (*FRAMEWORKS, *KERNELS)}


_PROFILES: dict[str, LibraryProfile] = {}


def profiles() -> dict[str, LibraryProfile]:
    """Return the table, id -> profile.

    >>> "torchao-0.18-rceil" in profiles()
    True
    """
    if not _PROFILES:
        _PROFILES.update(_table())
    return _PROFILES


def get_profile(name: str) -> LibraryProfile:
    """Return the profile called ``name``; raise InputError with the nearest name otherwise.

    >>> get_profile("deepgemm").library
    'DeepGEMM'
    """
    table = profiles()
    if isinstance(name, str) and name.lower() in table:
        return table[name.lower()]
    raise InputError(
        f"unknown profile {quote(name)}: expected one of the {len(table)} that 'mxlab profiles' "
        f"lists{nearest(name, table) if isinstance(name, str) else ''}"
    )
