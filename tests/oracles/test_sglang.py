"""SGLang's own Python, run under virtual GPUs, against the guards: verdict and message.

``tools/oracles.py`` fetches it. One child process forks once for each machine; what it answers has
the form of the recorded outcomes, and goes through the same comparisons. ``ORACLE_SEED`` draws
other inputs.
"""

import json
import os
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import guard_cases
import pytest
import sglang_inputs
import test_guards_config as config
import test_guards_experts as experts
import test_guards_kv as cache
import test_guards_linear as linear
from peer_process import ask, lacking

from mxlab.guards import LinearFacts, facts
from mxlab.guards.releases import AUGUST, NEWEST

pytestmark = pytest.mark.oracle

SEED = int(os.environ.get("ORACLE_SEED", "11"))
BOTH, NEITHER = {"flashinfer": True, "deep_gemm": True}, {"flashinfer": False, "deep_gemm": False}
FLASHINFER = {"flashinfer": True, "deep_gemm": False}


@dataclass(frozen=True, slots=True)
class Machine:
    """One virtual machine: which wheel runs on it, and whose rows it is held against."""

    wheel: str
    version: str  # of mxlab's table
    gpu: str
    packages: dict[str, bool]

    @property
    def id(self) -> str:
        return f"{self.wheel}-{self.gpu}-{sum(self.packages.values())}"


NOW, THEN = NEWEST.version, AUGUST.version
MACHINES = (
    Machine("0.5.23", NOW, "SM90", BOTH),
    Machine("0.5.23", NOW, "SM100", BOTH),
    Machine("0.5.23", NOW, "SM100", NEITHER),
    Machine("0.5.23", NOW, "SM110", FLASHINFER),
    Machine("0.5.23", NOW, "SM120", BOTH),
    Machine("0.5.23", NOW, "gfx942", NEITHER),
    Machine("0.5.23", NOW, "gfx950", NEITHER),
    # the commit lies between these two, and its rows hold for both
    Machine("0.5.18", THEN, "SM100", BOTH),
    Machine("0.5.18", THEN, "SM120", BOTH),
    Machine("0.5.19", THEN, "SM110", FLASHINFER),
    Machine("0.5.19", THEN, "gfx950", NEITHER),
)


def scale_processing(case: dict[str, Any]) -> None:
    """As for the recorded cases, which all resolve to a backend."""
    given, outcome = case["input"], case["outcome"]
    flag, weight = given["fp8_gemm_backend"], LinearFacts("linear", given["n"], given["k"])
    for deployment in guard_cases.deployments(case, fp8_gemm_backend=flag):
        asked = facts(deployment, config=linear.CONFIG, linear=weight)
        if asked.dense.kind == "converted":
            found = guard_cases.outcome_of(linear.DISPATCH, asked)
            assert found[1] == outcome.get("message", "")
        elif asked.dense.backend is None:
            assert not outcome["ok"]
            assert guard_cases.outcome_of(linear.RESOLVE, asked)[1] == outcome["message"]
        else:
            assert (
                asked.dense.backend
                == outcome.get("value", {"backend": asked.dense.backend})["backend"]
            )
            given = {**given, "backend": asked.dense.backend}
            linear.test_scale_processing({**case, "input": given})


Compare = Callable[[dict[str, Any]], None]
COMPARE: dict[str, Compare] = {
    "Fp8Config.__init__": config.test_constructor,
    "Fp8Config.from_config": config.test_from_config,
    "Fp8Config.get_min_capability": config.test_min_capability,
    "ModelConfig._verify_quantization": config.test_verify_quantization,
    "ModelConfig._parse_modelopt_quant_config": config.test_parse_modelopt,
    "quantization.utils.is_layer_skipped": config.test_is_layer_skipped,
    "fp8_utils.initialize_fp8_gemm_config": config.test_effective_flag,
    "fp8_utils.resolve_mxfp8_dense_gemm_backend": config.test_resolvers,
    "fp8_utils.resolve_block_fp8_mxfp8_backend": config.test_resolvers,
    "fp8_utils.dispatch_w8a8_mxfp8_linear": linear.test_dispatch_mxfp8,
    "fp8_utils.can_serve_block_fp8_as_mxfp8": config.test_can_serve_block_as_mxfp8,
    "fp8_utils.dispatch_w8a8_block_fp8_linear": config.test_dispatch_block_fp8,
    "Fp8LinearMethod.__init__": linear.test_linear_method,
    "Fp8LinearMethod.validate_block_quant_shapes": linear.test_block_shapes,
    "fp8_utils.validate_fp8_block_shape": linear.test_block_shapes,
    "Fp8LinearMethod._process_mxfp8_linear_weight_scale": scale_processing,
    "overrides._moe_runner_backend_quant_constraints": experts.test_constraints,
    "Fp8MoEMethod.__init__": experts.test_moe_method,
    "DeepGemmMoeQuantInfo": experts.test_deep_gemm_scales,
    "kv_cache_hook.handle_mxfp8_kv_cache_compatibility": cache.test_hardware,
    "overrides._fa4_page_constraint": cache.test_fa4_page,
    "MHATokenToKVPoolMXFP8.__init__": cache.test_pool,
    "inkling_attn_prologue": cache.test_prologue,
}


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """Machine id -> its cases with their outcomes; a wheel that is not here has none."""
    rng = random.Random(SEED)
    asked = [
        (machine, sglang_inputs.some(rng, older=machine.version == THEN))
        for machine in MACHINES
        if not lacking(f"sglang-{machine.wheel}")
    ]
    jobs = [
        {
            "peer": "sglang",
            "folder": f"sglang-{machine.wheel}",
            "gpu": machine.gpu,
            "packages": machine.packages,
            "cases": cases,
        }
        for machine, cases in asked
    ]
    outcomes = ask(jobs, tmp_path_factory.mktemp("sglang")) if jobs else []
    answers = {}
    for (machine, cases), found in zip(asked, outcomes, strict=True):
        more = {"gpu": machine.gpu, "packages": machine.packages, "version": machine.version}
        answers[machine.id] = [
            guard_cases._plain({**case, **more, "outcome": outcome})
            for case, outcome in zip(cases, found, strict=True)
        ]
    return answers


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.id)
def test_guards_say_what_sglang_does(
    machine: Machine, answered: dict[str, list[dict[str, Any]]]
) -> None:
    if machine.id not in answered:
        pytest.skip(lacking(f"sglang-{machine.wheel}"))
    differ: list[str] = []
    kinds: Counter[str] = Counter()
    for case in answered[machine.id]:
        try:
            COMPARE[case["fn"]](case)
        except (AssertionError, pytest.fail.Exception) as error:
            kinds[case["fn"]] += 1
            if kinds[case["fn"]] > 2:
                continue
            differ.append(f"{json.dumps(case, default=list)[:700]}\n  {str(error)[:300]}")
    shown = "\n".join(differ)
    assert not kinds, (
        f"seed {SEED}, {len(answered[machine.id])} cases, these differ: {kinds}\n{shown}"
    )


def test_every_check_passed_and_tripped(answered: dict[str, list[dict[str, Any]]]) -> None:
    """Both outcomes of every function that has two were drawn, on the newest version alone."""
    if lacking("sglang-0.5.23"):
        pytest.skip(lacking("sglang-0.5.23"))
    newest = [answered[machine.id] for machine in MACHINES if machine.version == NOW]
    seen = Counter((case["fn"], case["outcome"]["ok"]) for some in newest for case in some)
    assert sum(seen.values()) > 20_000
    never_raises = {
        "Fp8Config.get_min_capability",
        "ModelConfig._parse_modelopt_quant_config",
        "fp8_utils.initialize_fp8_gemm_config",
        "fp8_utils.can_serve_block_fp8_as_mxfp8",
        "fp8_utils.resolve_block_fp8_mxfp8_backend",
        "overrides._moe_runner_backend_quant_constraints",
        "overrides._fa4_page_constraint",
    }
    for name in sglang_inputs.INPUTS:
        assert seen[name, True] >= 2, name
        assert name in never_raises or seen[name, False] >= 1, name
