"""torchao 0.18's table: the quantiser, the MXFP8 linear of inference and of training, grouped."""

from mxlab.guards import torchao_linear, torchao_train
from mxlab.guards.engine import Guard
from mxlab.guards.torchao_facts import FUNCTIONS, SOURCE, VERSION

#: in the order in which a call meets them
GUARDS: tuple[Guard, ...] = tuple(
    sorted((*torchao_linear.GUARDS, *torchao_train.GUARDS), key=lambda row: row.stage)
)

__all__ = ["FUNCTIONS", "GUARDS", "SOURCE", "VERSION"]
