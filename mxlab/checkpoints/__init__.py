"""Checkpoints: what a safetensors file holds, and what was shipped in it by mistake."""

from mxlab.checkpoints.finding import Finding
from mxlab.checkpoints.inspection import inspect
from mxlab.checkpoints.kinds import KINDS, Kind
from mxlab.checkpoints.report import Report

__all__ = ["KINDS", "Finding", "Kind", "Report", "inspect"]
