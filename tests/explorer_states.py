"""Random states of any explorer, in bounds and out of them, for the tests that ask them all."""

import json
import random

from mxlab.explorers import explorer
from mxlab.explorers.controls import AnyControl, Choice, Int, Numbers, Text
from mxlab.models.shipped import shipped_config

#: what people write or paste into a box, by the control's name
_TEXTS = {
    "config_json": [
        json.dumps(shipped_config(n)) for n in ("Llama-3.1-8B", "DeepSeek-V3", "phi-4")
    ],
    "text": [
        "MXFP8 KV cache requires head_dim divisible by 32, got 80.",
        "Weight input_size_per_partition = 3696 is not divisible by weight quantization "
        "block_k = 32.",
        "MXFP8 KV cache wants a multiple of thirty-two",
    ],
    "layer": ["o_proj", "down_proj", "experts.w2"],
}
#: for texts of many lines: a config.json, a log
_LONG = (
    *(json.dumps(shipped_config(model), indent=1) for model in ("Qwen3-8B", "gpt-oss-120b")),
    "ValueError: MXFP8 KV cache requires head_dim divisible by 32, got 80.",
    "[TP3] INFO ok\n" * 300 + "ValueError: Weight input_size_per_partition = 3696 is not divisible "
    "by weight quantization block_k = 32.\n",
    "{",
)
_ODD = ("nan", "-inf", "-0", "0x1.8p3", "1e-40", "448", "3e38", "1e39", "x", "0")


def states(name: str, count: int) -> list[str]:
    """Return ``count`` states as JSON; most controls stay at their defaults."""
    chance = random.Random(name)
    made = []
    for _ in range(count):
        controls = explorer(name).controls
        # most stay as they are: a state far from the default nearly always stops
        far = [c for c in controls if chance.random() < (0.8 if isinstance(c, Numbers) else 0.4)]
        far = far or [chance.choice(controls)]
        made.append(json.dumps({control.name: _value(control, chance) for control in far}))
    return made


def _value(control: AnyControl, chance: random.Random) -> object:
    match control:
        case Choice():
            return chance.choice(control.options)[0]
        case Int():
            low, high, _ = control.slider or (control.low, control.high, 1)
            wide = (control.low - 2, control.high + 2)
            return chance.randint(*(wide if chance.random() < 0.2 else (low, high)))
        case Numbers():
            if control.presets and chance.random() < 0.3:
                return chance.choice(control.presets)[1]
            spread = chance.choice((0.0, 2.0, 30.0))
            texts = [
                f"{chance.gauss(0, 1) * 2 ** chance.uniform(-spread, spread):.6g}"
                for _ in range(control.count)
            ]
            if chance.random() < 0.3:
                texts[chance.randrange(control.count)] = chance.choice(_ODD)
            return ",".join(texts)
        case Text() if control.name in _TEXTS and chance.random() < 0.8:
            return chance.choice(_TEXTS[control.name])
        case Text() if control.lines == 1 and chance.random() < 0.8:
            if chance.random() < 0.2:
                return chance.choice(_ODD)
            return f"{chance.gauss(0, 1) * 2 ** chance.uniform(-30, 30):.6g}"
        case Text() if control.lines > 1 and chance.random() < 0.4:
            return chance.choice(_LONG)
        case Text() if control.default and chance.random() < 0.5:
            cut = chance.randrange(len(control.default))
            return control.default[cut:] + control.default[:cut]
        case _:
            return "".join(chance.choices("aé\n<\ud800😀", k=9))
