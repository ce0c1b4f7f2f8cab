"""One colour for one concept, in every explorer, figure and host.

``TONES`` are what a cell or a shape is tinted with; a concept is an index into them. The face's
style sheet and the pictures take the same hues, which a test holds together.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tone:
    """One hue, and its tint on a white card (24 % of the hue)."""

    hue: str
    tint: str


def _tone(hue: str) -> Tone:
    red, green, blue = (int(hue[i : i + 2], 16) for i in (1, 3, 5))
    parts = (round(255 + (part - 255) * 0.24) for part in (red, green, blue))
    return Tone(hue, "#" + "".join(f"{part:02x}" for part in parts))


TONES = tuple(
    _tone(hue)
    for hue in (
        "#3b82c4",  # blue
        "#d98324",  # orange
        "#3f9b5f",  # green
        "#9b5fb5",  # purple
        "#d1242f",  # red
        "#2a9d9d",  # teal
        "#b08800",  # ochre
        "#6e7781",  # grey
    )
)

# what a number is made of
EXPONENT, MANTISSA, SIGN, SCALE = 0, 1, 3, 2
# what became of an element
KEPT, ROUNDED, FLUSHED, SATURATED, NOT_A_NUMBER = 5, 0, 6, 4, 3
# what memory holds
BANDS = (0, 1, 2, 3)
PADDING = -1
# what is wrong, and the reference it is held against
WRONG, RIGHT, REFERENCE = 4, 2, 7

#: hue of a verdict's status, dark enough for white text on it
STATUS = {
    "stops": "#d1242f",
    "falls-back": "#b06d00",
    "warns": "#8a6a00",
    "silent": "#8a3fc0",
    "passes": "#22863a",
    "unknown": "#6e7781",
    "not-reached": "#6e7781",
}
INK, DIM, RULE, CARD, EMPTY, SOFT = (
    *("#1c1c1c", "#57606a", "#d0d7de", "#ffffff", "#eceff2", "#f6f8fa"),
)
