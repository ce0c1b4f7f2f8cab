"""Settings that every test shares."""

import os

from hypothesis import settings

# CI must not fail on a draw that nobody can repeat: there the examples are always the same
settings.register_profile("ci", derandomize=True, print_blob=True)
if os.environ.get("CI"):
    settings.load_profile("ci")
