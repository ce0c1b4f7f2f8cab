"""How serving systems split one linear over tensor-parallel ranks: pure arithmetic.

Rules of SGLang 0.5.23 and vLLM 0.33.0 (``layers/linear.py``, ``vocab_parallel_embedding.py``).
"""


class Indivisible(Exception):
    """A width that does not divide; the text is the reason: ``name=value not divisible by tp``."""


def divide(name: str, value: int, ranks: int) -> int:
    """Return ``value / ranks``, or raise Indivisible.

    >>> divide("intermediate_size", 14336, 8)
    1792
    """
    if value % ranks:
        raise Indivisible(f"{name}={value} not divisible by {ranks}")
    return value // ranks


def kv_heads(heads: int, tp: int, name: str = "num_key_value_heads") -> int:
    """Return the KV heads of one rank: split while there are enough, then one on several ranks.

    Raises Indivisible.

    >>> kv_heads(8, 4), kv_heads(8, 16)
    (2, 1)
    """
    if tp < heads:
        return divide(name, heads, tp)
    if tp % heads:
        raise Indivisible(f"tp={tp} not divisible by {name}={heads}")
    return 1


def padded_vocabulary(vocabulary: int, tp: int) -> int:
    """Return the rows of the output embedding over all ranks.

    A multiple of 64; of 64 tp where the former does not divide by tp.

    >>> padded_vocabulary(50257, 8), padded_vocabulary(50257, 7)
    (50304, 50624)
    """
    rows = -(-vocabulary // 64) * 64
    return rows if rows % tp == 0 else -(-vocabulary // (64 * tp)) * 64 * tp
