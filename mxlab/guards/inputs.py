"""Checks of what a person hands to ``check``: one line, the nearest valid value."""

from collections.abc import Mapping, Sequence

from mxlab.errors import InputError, choose, quote, whole_number
from mxlab.guards import values as v
from mxlab.guards.facts import (
    ConfigFacts,
    Deployment,
    ExpertFacts,
    KvCacheFacts,
    LinearFacts,
    PrologueFacts,
)
from mxlab.guards.releases import NEWEST, Release, release
from mxlab.guards.settings import check_settings
from mxlab.guards.sglang_prologue import FUNCTIONS
from mxlab.guards.steps import check_fields
from mxlab.guards.systems import system

MAX_SIZE = 2**40
_MAX_RANKS = 2**20
_MAX_NAME = 80
_MAX_REASON = 200
_MAX_PAGE = 2**20
_METHOD_KEYS = ("quant_method", "quant_algo")


def _choice(kind: str, value: object, names: Sequence[str]) -> None:
    if not isinstance(value, str) or value not in names:
        choose(kind, value, {name: name for name in names})
        raise InputError(f"{kind} {quote(value)}: write it in lower case")


def _is(kind: type, value: object) -> None:
    if not isinstance(value, kind):
        raise InputError(f"{quote(value)} is no {kind.__name__}: expected mxlab.{kind.__name__}")


def _check_flags(d: Deployment, rules: Release) -> None:
    """Raise InputError for a flag, or a value of one, that this version of SGLang does not have."""
    if rules.megamoe:
        return
    mega = "flashinfer_megamoe"
    for flag, there in (
        (f"--moe-runner-backend {mega}", d.moe_runner_backend == mega),
        (f"--moe-a2a-backend {mega}", d.moe_a2a_backend == mega),
        ("--flashinfer-a2a-dispatch-type", d.flashinfer_a2a_dispatch_type is not None),
    ):
        if there:
            raise InputError(f"SGLang {rules.version} has no {flag}: {NEWEST.version} has it")


def check_deployment(d: Deployment) -> None:
    """Raise InputError for a deployment that no launch command could name."""
    _is(Deployment, d)
    if not isinstance(d.version, str):
        raise InputError(f"version is {quote(d.version)}: expected text")
    asked = system(d.system, d.version)
    if asked.id == "sglang":
        _check_flags(d, release(asked.version))
    whole_number("tp", d.tp, 1, _MAX_RANKS)
    whole_number("ep", d.ep, 1, _MAX_RANKS)
    if d.quantization is not None:
        names = (*v.QUANTIZATION, *v.METHODS_CUDA_GFX95)
        choose("--quantization", d.quantization, dict.fromkeys(names))
    _choice("--fp8-gemm-backend", d.fp8_gemm_backend, v.FP8_GEMM_BACKEND)
    _choice("--moe-runner-backend", d.moe_runner_backend, v.MOE_RUNNER_BACKEND)
    _choice("--moe-a2a-backend", d.moe_a2a_backend, v.MOE_A2A_BACKEND)
    if d.flashinfer_a2a_dispatch_type is not None:
        _choice("--flashinfer-a2a-dispatch-type", d.flashinfer_a2a_dispatch_type, v.A2A_DISPATCH)
    _choice("--kv-cache-dtype", d.kv_cache_dtype, v.KV_CACHE_DTYPE)
    _choice("--dtype", d.dtype, tuple(v.DTYPE))
    for flag, value in (
        ("--attention-backend", d.attention_backend),
        ("--prefill-attention-backend", d.prefill_attention_backend),
        ("--decode-attention-backend", d.decode_attention_backend),
    ):
        if value is not None:
            _choice(flag, value, v.ATTENTION_BACKEND)
    if d.page_size is not None:
        whole_number("--page-size", d.page_size, 1, _MAX_PAGE)
    if d.speculative_eagle_topk is not None:
        whole_number("--speculative-eagle-topk", d.speculative_eagle_topk, 0, _MAX_PAGE)
    if not isinstance(d.packages, frozenset | set | list | tuple):
        raise InputError(f"packages are {quote(d.packages)}: expected a set of names")
    for package in d.packages:
        _choice("package", package, v.PACKAGES)
    if not isinstance(d.env, Mapping):
        raise InputError(f"env is {quote(d.env)}: expected names and values")
    for name, value in d.env.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise InputError(f"environment variable {quote(name)} is {quote(value)}: expected text")
    if not isinstance(d.architecture, str):
        raise InputError(f"architecture is {quote(d.architecture)}: expected text")
    check_settings(d.settings)


def check_config(config: object) -> ConfigFacts:
    """Return the config as ConfigFacts, or raise InputError naming the key path."""
    if config is None:
        return ConfigFacts(None)
    facts = config if isinstance(config, ConfigFacts) else ConfigFacts(_mapping(config))
    if facts.values is None:
        return facts
    path = "Fp8Config" if facts.constructor else "quantization_config"
    values = _mapping(facts.values)
    for key in _METHOD_KEYS:
        value = values.get(key)
        if key in values and not (isinstance(value, str) or (key == "quant_algo" and not value)):
            raise InputError(f"{path}.{key} is {quote(value)}: expected text, such as 'mxfp8'")
        if isinstance(value, str) and len(value) > _MAX_NAME:
            raise InputError(f"{path}.{key} is {quote(value)}: expected a short name")
    if facts.constructor:
        known = {
            "is_checkpoint_fp8_serialized": None,
            "activation_scheme": None,
            "ignored_layers": None,
            "weight_block_size": None,
            "packed_modules_mapping": None,
            "use_mxfp8": None,
            "is_fp4_experts": None,
            "kv_cache_quant_algo": None,
            "scale_fmt": None,
        }
        for key in values:
            choose("argument of Fp8Config", key, known)
    return facts


def _mapping(config: object) -> Mapping[str, object]:
    if not isinstance(config, Mapping):
        raise InputError(f"quantization_config is {quote(config)}: expected an object or null")
    return config


def check_linear(linear: LinearFacts) -> None:
    """Raise InputError for sizes that no weight has."""
    _is(LinearFacts, linear)
    where = f"linear {quote(linear.name)}:"
    whole_number(f"{where} n", linear.n, 1, MAX_SIZE)
    whole_number(f"{where} k", linear.k, 1, MAX_SIZE)
    if not isinstance(linear.parts, tuple | list):
        raise InputError(f"{where} parts are {quote(linear.parts)}: expected the sizes in N")
    for part in linear.parts:
        whole_number(f"{where} part", part, 0, MAX_SIZE)
    if linear.parts and sum(linear.parts) != linear.n:
        raise InputError(
            f"{where} parts {quote(linear.parts)} add up to {sum(linear.parts)}, "
            f"not to n = {linear.n}"
        )
    _choice("shard", linear.shard, ("column", "row", "replicated", "vocab"))
    _reason(where, linear.indivisible)


def check_experts(experts: ExpertFacts) -> None:
    """Raise InputError for sizes that no expert has."""
    _is(ExpertFacts, experts)
    whole_number("experts: hidden", experts.hidden, 1, MAX_SIZE)
    whole_number("experts: intermediate", experts.intermediate, 1, MAX_SIZE)
    whole_number("experts: experts", experts.experts, 1, MAX_SIZE)
    whole_number("experts: moe_tp", experts.moe_tp, 1, _MAX_RANKS)
    _reason("experts:", experts.indivisible)


def _reason(where: str, value: object) -> None:
    if not isinstance(value, str) or len(value) > _MAX_REASON:
        raise InputError(f"{where} indivisible is {quote(value)}: expected a short text")


def check_kv_cache(kv: KvCacheFacts) -> None:
    """Raise InputError for sizes that no head has."""
    _is(KvCacheFacts, kv)
    whole_number("head_dim", kv.head_dim, 1, MAX_SIZE)
    whole_number("v_head_dim", kv.v_head_dim, 1, MAX_SIZE)
    whole_number("kv_heads", kv.kv_heads, 1, MAX_SIZE)
    for name, scale in (("k_scale", kv.k_scale), ("v_scale", kv.v_scale)):
        if scale is not None and (isinstance(scale, bool) or not isinstance(scale, int | float)):
            raise InputError(f"{name} is {quote(scale)}: expected a number, or nothing")
    for name in ("size", "swa_head_dim", "swa_v_head_dim"):
        if getattr(kv, name) is not None:
            whole_number(name, getattr(kv, name), 0 if name == "size" else 1, MAX_SIZE)


def check_prologue(p: PrologueFacts) -> None:
    """Raise InputError for arguments that the prologue cannot be given."""
    _is(PrologueFacts, p)
    _choice("prologue function", p.function, tuple(FUNCTIONS))
    whole_number("dq", p.dq, 0, MAX_SIZE)
    whole_number("dkv", p.dkv, 0, MAX_SIZE)
    whole_number("slots", p.slots, 0, MAX_SIZE)
    whole_number("prologue page_size", p.page_size, 1, _MAX_PAGE)
    check_fields("prologue", p, ("function", "sfk_shape", "sfv_shape"))
    for name, shape in (("sfk_shape", p.sfk_shape), ("sfv_shape", p.sfv_shape)):
        for size in shape or ():
            whole_number(name, size, 0, MAX_SIZE)
