"""Will it run? A model, or one linear layer and one KV cache, against the guards in their order."""

from mxlab.explorers.controls import State
from mxlab.explorers.panels import View
from mxlab.explorers.protocol import Explorer
from mxlab.explorers.will_it_run_controls import CONTROLS, LAYER
from mxlab.explorers.will_it_run_layer import view as of_layer
from mxlab.explorers.will_it_run_model import view as of_model


def view(state: State) -> View:
    """Return what the guards say of the layer that is typed in, or of a whole model."""
    return of_layer(state) if state["config"] == LAYER else of_model(state)


EXPLORER = Explorer(
    name="will_it_run",
    title="Will it run?",
    question="Which guard stops this model, layer or KV cache on this GPU, and with which numbers?",
    controls=CONTROLS,
    view=view,
)
