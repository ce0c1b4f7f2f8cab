"""SGLang's checks of the server arguments for experts (S1)."""

from mxlab.guards.engine import Guard

GUARDS: tuple[Guard, ...] = ()
