"""MXFP8 KV cache and the fused prologue against SGLang's recorded outcomes."""

from typing import Any

import pytest
from guard_cases import cases, deployments, kept, outcome_of

from mxlab.guards import Deployment, KvCacheFacts, PrologueFacts, Status, check, facts
from mxlab.guards.sglang_kv_args import kv_cache_dtype
from mxlab.guards.sglang_prologue import scale_shape


def _agrees(found: tuple[str, str, list[str]], outcome: dict[str, Any]) -> None:
    error, message, warnings = found
    assert (error == "") == outcome["ok"], (found, outcome)
    if outcome.get("explicit"):
        assert (error, message) == (outcome["error"], outcome["message"])
    if outcome["ok"]:
        assert warnings == outcome.get("warnings", [])


@pytest.mark.parametrize("case", cases("kv_cache_hook.handle_mxfp8_kv_cache_compatibility"))
def test_hardware(case: dict[str, Any]) -> None:
    for deployment in deployments(case, kv_cache_dtype=case["input"]["kv_cache_dtype"]):
        _agrees(outcome_of(("kv-hw",), facts(deployment)), case["outcome"])


@pytest.mark.parametrize("gpu", ["a100", "l40s", "h200", "mi300x", "mi355x", "cpu", "b200"])
def test_hardware_everywhere(gpu: str) -> None:
    found = {v.guard: v.status for v in check(Deployment(gpu=gpu, kv_cache_dtype="mxfp8"))}
    assert (found["kv-hw"] is Status.PASSES) == (gpu == "b200")


@pytest.mark.parametrize("case", cases("overrides._fa4_page_constraint"))
def test_fa4_page(case: dict[str, Any]) -> None:
    given, outcome = case["input"], case["outcome"]
    kv = KvCacheFacts(128, 128, 8, mla=given["mla"])
    for deployment in deployments(
        case,
        attention_backend=given["attention_backend"],
        prefill_attention_backend=given["prefill_attention_backend"],
        decode_attention_backend=given["decode_attention_backend"],
        speculative_eagle_topk=given["speculative_eagle_topk"],
        page_size=given["page_size"],
    ):
        asked = facts(deployment, kv_cache=kv)
        _agrees(outcome_of(("kv-fa4-page",), asked), outcome)


@pytest.mark.parametrize("case", cases("MHATokenToKVPoolMXFP8.__init__"))
def test_pool(case: dict[str, Any]) -> None:
    given, outcome = case["input"], case["outcome"]
    v_head_dim = given["v_head_dim"] or given["head_dim"]
    kv = KvCacheFacts(
        given["head_dim"],
        v_head_dim,
        given["head_num"],
        size=given["size"],
        swa_head_dim=given.get("swa_head_dim"),
        swa_v_head_dim=given.get("swa_v_head_dim"),
    )
    deployment = deployments(
        case,
        kv_cache_dtype="mxfp8",
        page_size=given["page_size"],
        attention_backend="flashinfer",
    )[0]
    rows = ("kv-hnd-page", "kv-hd32", "kv-vhd32", "kv-e8m0", "kv-hnd", "kv-page-div")
    _agrees(outcome_of(rows, facts(deployment, kv_cache=kv)), outcome)
    if outcome["ok"] and given["page_size"] == 128 and given["head_dim"] == 128:
        shape = outcome["value"]["k_scale_buffer"]["shape"]
        slots = outcome["value"]["k_buffer"]["shape"][0]
        assert tuple(shape) == scale_shape(slots, 128, given["head_num"] * 128)


@pytest.mark.parametrize("case", cases("kv_cache_hook.validate_prefill_only_disable_kv_cache_args"))
def test_prefill_only(case: dict[str, Any]) -> None:
    given = case["input"]
    names = (
        *("prefill_only_disable_kv_cache", "is_embedding", "chunked_prefill_size"),
        "disable_radix_cache",
    )
    deployment = Deployment(
        gpu="b200",
        kv_cache_dtype=given["kv_cache_dtype"],
        settings={name.replace("_", "-"): given[name] for name in names},
    )
    _agrees(outcome_of(("kv-prefill-only",), facts(deployment)), case["outcome"])


@pytest.mark.parametrize("case", cases("kv_cache_dtype.configure_kv_cache_dtype"))
def test_dtype(case: dict[str, Any]) -> None:
    given, value = case["input"], case["outcome"]["value"]
    algorithm = (given.get("quant") or {}).get("kv_cache_quant_algo")
    for deployment in deployments(case):
        machine = facts(deployment).platform
        found = kv_cache_dtype(given["kv_cache_dtype"], algorithm, machine)
        assert found == (value["resolved"], value["dtype"])


def _layer_writes(given: dict[str, Any]) -> bool:
    """16-bit K without scales, or FP8 K with both: what an attention layer hands over."""
    both = given["k_scale"] and given["v_scale"]
    neither = not given["k_scale"] and not given["v_scale"] and given["k_dtype"] == "bfloat16"
    # a recorded call ends at K's kernel, so that it never comes to a V of another size
    seen = given["head_dim"] != 128 or given["v_head_dim"] in (None, 128)
    return (both or neither) and seen and not given["dcp_kv_mask"] and given["store_kernel"]


@pytest.mark.parametrize("case", kept("MHATokenToKVPoolMXFP8.set_kv_buffer", _layer_writes))
def test_store(case: dict[str, Any]) -> None:
    given, outcome = case["input"], case["outcome"]
    v_head_dim = given["v_head_dim"] or given["head_dim"]
    kv = KvCacheFacts(given["head_dim"], v_head_dim, given["head_num"])
    for deployment in deployments(case):
        deployment = Deployment(
            gpu=deployment.gpu,
            toolkit=deployment.toolkit,
            kv_cache_dtype="mxfp8",
            page_size=given["page_size"],
            attention_backend="flashinfer",
            env={"SGLANG_OPT_INKLING_MXFP8_FUSED_QUANT_STORE": str(int(not given["k_scale"]))},
        )
        asked = facts(deployment, kv_cache=kv)
        if not asked.platform.cuda:
            continue
        rows = ("kv-page128", "kv-sf-dim4") if given["k_scale"] else ("kv-no-scales",)
        _agrees(outcome_of(rows, asked), outcome)


@pytest.mark.parametrize("case", cases("inkling_attn_prologue"))
def test_prologue(case: dict[str, Any]) -> None:
    given, outcome = case["input"], case["outcome"]
    if not outcome["ok"] and not outcome["explicit"]:
        # without MXFP8, less than one KV head is an accident of torch's, not a check
        assert not given["mxfp8_quant"]
        assert given["dkv"] < 128
        return
    sfk, sfv = given["sfk"], given["sfv"]
    prologue = PrologueFacts(
        given["function"],
        given["dq"],
        given["dkv"],
        given["k_buf_rows"],
        given["page_size"],
        given["mxfp8_quant"],
        tuple(sfk["shape"]) if sfk else None,
        tuple(sfv["shape"]) if sfv else None,
        sfk["contiguous"] if sfk else True,
        sfv["contiguous"] if sfv else True,
    )
    rows = ("ink-py-dims", "ink-py-sf", "ink-py-shape", "ink-py-contig")
    _agrees(outcome_of(rows, facts(Deployment(gpu="b200"), prologue=prologue)), outcome)


def test_mxfp8_of_a_latent_is_plain_fp8() -> None:
    def found(dtype: str, mla: bool) -> Status:
        kv = KvCacheFacts(192, 128, 1, mla=mla)
        verdicts = check(Deployment(gpu="b200", kv_cache_dtype=dtype), kv_cache=kv)
        return {v.guard: v.status for v in verdicts}["silent-kv-latent"]

    assert found("mxfp8", True) is Status.SILENT
    assert found("mxfp8", False) is Status.PASSES
    assert found("fp8_e4m3", True) is Status.NOT_REACHED
