"""SGLang's checks of MXFP8 experts (S4 to S8)."""

from mxlab.guards.engine import Guard

GUARDS: tuple[Guard, ...] = ()
