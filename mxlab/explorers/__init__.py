"""Explorers: one Python file each; controls, view(state), texts; no NumPy."""
