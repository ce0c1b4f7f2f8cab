"""Measuring: every time beside its peer's in the same run, on the same data, with provenance."""
