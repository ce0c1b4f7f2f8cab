"""A model on a deployment: which guard stops it, where, why, in numbers.

The doctor derives the shapes of one rank, asks every guard of the system about the server
arguments, the checkpoint's quantisation, each linear, the experts and the KV cache, and orders
what it heard as the system would meet it: by stage, then by layer.
"""

from dataclasses import replace

from mxlab.diagnosis import LayerReport, Report, deployment_json
from mxlab.errors import whole_number
from mxlab.examiner import Examiner
from mxlab.guards import Deployment
from mxlab.guards.calls import MAX_SIZE, ROWS
from mxlab.guards.inputs import check_deployment
from mxlab.models import Source, read_model

__all__ = ["Examiner", "LayerReport", "Report", "deployment_json", "doctor", "evaluate"]


def evaluate(config: Source, deployment: Deployment) -> Report:
    """Ask every guard about one model on one deployment; no suggestions."""
    return Examiner(config).evaluate(deployment)


def doctor(
    config: Source,
    deployment: Deployment,
    *,
    suggest: bool = True,
    prologue: bool = False,
    m: int = ROWS,
) -> Report:
    """Say whether a model runs on a deployment, and if not, what stops it first and when.

    ``config`` is what ``mxlab.models.read_model`` takes: a config.json, a folder, headers, the name
    of a shipped model, the parsed config or a live module. ``suggest`` searches for changes under
    which a model that stops would run.
    ``prologue`` asks the checks of the fused attention prologue even of a model that SGLang does
    not run it for. ``m`` are the rows of activations where another system than SGLang is asked: its
    kernels look at them. Raises InputError for a config or a flag that cannot be used.

    >>> flags = Deployment(gpu="b200", tp=8, quantization="mxfp8", fp8_gemm_backend="deep_gemm")
    >>> report = doctor("Llama-3.1-8B", flags)
    >>> report.outcome
    'runs'
    """
    check_deployment(deployment)
    whole_number("m", m, 1, MAX_SIZE)
    examiner = Examiner(read_model(config), prologue, m)
    report = examiner.evaluate(deployment)
    report = replace(report, weights=examiner.weights(deployment))
    if not suggest or report.outcome != "stops":
        return report
    from mxlab.suggest import suggestions

    return replace(report, suggestions=suggestions(examiner, report))
