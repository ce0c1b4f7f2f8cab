"""SGLang's own checks, each as one call on plain JSON; runs in the child process."""

import functools
import importlib
import inspect
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import virtual_gpu
from stand_ins import Finder, bare_package

Space = types.SimpleNamespace
Call = Callable[[dict[str, Any]], Any]


def _module(name: str) -> Any:
    return importlib.import_module(name)


#: SMs of FlashInfer's mm_mxfp8 (0.7.2), the one answer asked of the stand-in
_SMS = {"cute-dsl": (100, 103, 107), "trtllm": (100, 103, 107)}


def prepare(asked: dict[str, Any]) -> dict[str, Call]:
    """Import SGLang as it would find itself on this machine; return function name -> call."""
    virtual_gpu.install(asked["gpu"])
    there = {name for name, value in asked["packages"].items() if value}
    # imported by name on ROCm whatever its flags say; the same everywhere else
    kernels = {"aiter", "sgl_kernel", "triton_kernels"}
    apart = {"transformers", "compressed_tensors", "huggingface_hub", "pydantic", "pydantic_core"}
    always = apart | kernels | there
    sys.meta_path.insert(0, Finder("sglang", always, {"flashinfer", "deep_gemm"} - there))
    bare_package("sglang", str(Path(asked["paths"][0]) / "sglang")).__dict__["__version__"] = "0"
    if "flashinfer" in there:
        _flashinfer()
    if "deep_gemm" in there:
        layout = _module("deep_gemm.utils.layout")
        layout.get_mn_major_tma_aligned_packed_ue8m0_tensor = lambda scale: scale.int()
    return {**_config(), **_dense(), **_experts(), **_cache()}


def _flashinfer() -> None:
    flashinfer = _module("flashinfer")

    def supported(backend: str, sm: int) -> bool:
        return sm in _SMS.get(backend, ())

    def interleave(scale: torch.Tensor) -> torch.Tensor:
        """Zeros of the size that FlashInfer's swizzle returns."""
        flashinfer.block_scale_interleave.calls += 1
        rows, columns = scale.shape[-2:]
        return torch.zeros(-(-rows // 128) * 128 * (-(-columns // 4) * 4), dtype=torch.uint8)

    flashinfer.mm_mxfp8 = Space(is_backend_supported=supported)
    flashinfer.block_scale_interleave = interleave


def _config() -> dict[str, Call]:
    model_config = _module("sglang.srt.configs.model_config")
    fp8 = _module("sglang.srt.layers.quantization.fp8")
    utils = _module("sglang.srt.layers.quantization.utils")

    def described(config: Any) -> dict[str, Any]:
        names = ("weight_block_size", "activation_scheme", "ignored_layers", "use_mxfp8")
        more = ("is_checkpoint_fp8_serialized", "scale_fmt", "kv_cache_quant_algo")
        found = {name: getattr(config, name, None) for name in names + more}
        return {"name": config.get_name(), **found}

    def verify(given: dict[str, Any]) -> Any:
        model = model_config.ModelConfig.__new__(model_config.ModelConfig)
        model.quantization = given["quantization"]
        model.is_draft_model = given["is_draft_model"]
        model.is_draft_quantization_explicit = False
        model.hf_config = Space(architectures=["x"])
        model._parse_quant_hf_config = lambda: given["checkpoint"]
        model._find_quant_modelslim_config = lambda: None
        model._verify_quantization()
        return {"quantization": model.quantization}

    def parse(given: dict[str, Any]) -> Any:
        model = model_config.ModelConfig.__new__(model_config.ModelConfig)
        return {"parsed": model._parse_modelopt_quant_config(given["config"])}

    def skipped(given: dict[str, Any]) -> Any:
        mapping = given["fused_mapping"]
        more = {} if mapping is None else {"fused_mapping": mapping}
        return utils.is_layer_skipped(given["prefix"], given["ignored_layers"], **more)

    def capability(given: dict[str, Any]) -> Any:
        return fp8.Fp8Config(
            use_mxfp8=given["use_mxfp8"],
            is_checkpoint_fp8_serialized=given["is_checkpoint_fp8_serialized"],
        ).get_min_capability()

    return {
        "Fp8Config.__init__": lambda given: described(fp8.Fp8Config(**given["kwargs"])),
        "Fp8Config.from_config": lambda given: described(
            fp8.Fp8Config.from_config(given["config"])
        ),
        "Fp8Config.get_min_capability": capability,
        "ModelConfig._verify_quantization": verify,
        "ModelConfig._parse_modelopt_quant_config": parse,
        "quantization.utils.is_layer_skipped": skipped,
    }


def _named(function: Any) -> Any:
    if function is None:
        return None
    if isinstance(function, functools.partial):
        plain = {k: v for k, v in function.keywords.items() if isinstance(v, str | int | bool)}
        return {"function": function.func.__name__, "kwargs": plain}
    name = function.__name__
    # private up to 0.5.19
    return {"function": name.removeprefix("_") if "deepgemm" in name else name, "kwargs": {}}


def _tensor(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.dtype == torch.int32:
        return "packed by the stand-in for DeepGEMM"
    if isinstance(value, torch.Tensor):
        return {"shape": list(value.shape), "dtype": str(value.dtype).removeprefix("torch.")}
    return value if value is None or isinstance(value, str) else "stand-in"


def _dense() -> dict[str, Call]:
    fp8 = _module("sglang.srt.layers.quantization.fp8")
    fp8_utils = _module("sglang.srt.layers.quantization.fp8_utils")
    common = _module("sglang.srt.utils.common")

    def flag(given: dict[str, Any]) -> None:
        common.print_warning_once.cache_clear()
        kernel = Space(fp8_gemm_runner_backend=given["fp8_gemm_backend"])
        if inspect.signature(fp8_utils.initialize_fp8_gemm_config).parameters:  # up to 0.5.18
            fp8_utils.initialize_fp8_gemm_config(kernel)
        else:
            fp8_utils.get_exec = lambda: Space(kernel=kernel)
            fp8_utils.initialize_fp8_gemm_config()

    def after_flag(call: Call) -> Call:
        def made(given: dict[str, Any]) -> Any:
            flag(given)
            return call(given)

        return made

    def shapes(given: dict[str, Any]) -> Any:
        common.print_warning_once.cache_clear()
        tp = given["tp_size"]
        parts = given["output_partition_sizes"]
        group = None if tp is None else Space(world_size=tp)
        check = fp8.Fp8LinearMethod.validate_block_quant_shapes
        layer = [Space(tp_group=group)]
        if "layer" not in inspect.signature(check).parameters:  # up to 0.5.19
            layer = []
            fp8.get_parallel = lambda: Space(tp_size=tp or 1)
        check(
            *layer,
            Space(weight_block_size=given["weight_block_size"]),
            given["input_size"],
            given["input_size_per_partition"],
            given["output_size"],
            sum(parts),
            parts,
            given["skip_block_quant_check"],
        )

    def variant(given: dict[str, Any]) -> Any:
        tp = given["tp_size"]
        group = None if tp is None else Space(world_size=tp)
        fp8_utils.get_parallel = lambda: Space(tp_size=1)  # asked for and not used, up to 0.5.18
        fp8_utils.validate_fp8_block_shape(
            Space(tp_group=group, tp_size=tp or 1),
            given["input_size"],
            given["output_size"],
            given["input_size_per_partition"],
            given["output_partition_sizes"],
            given["weight_block_size"],
        )

    def method(given: dict[str, Any]) -> Any:
        made = fp8.Fp8LinearMethod(fp8.Fp8Config(**given["config"]))
        backend = made.mxfp8_dense_backend
        return {
            "mxfp8_dense_backend": None if backend is None else backend.value,
            "w8a8_mxfp8_linear": _named(made.w8a8_mxfp8_linear),
            "w8a8_block_fp8_linear": _named(made.w8a8_block_fp8_linear),
            "convert_mxfp8_to_block": made.convert_mxfp8_to_block,
            "block_fp8_as_mxfp8": getattr(made, "block_fp8_as_mxfp8", False),
            "use_marlin": made.use_marlin,
        }

    def scale(given: dict[str, Any]) -> Any:
        n, k = given["n"], given["k"]
        made = fp8.Fp8LinearMethod(fp8.Fp8Config(True, use_mxfp8=True))
        if made.convert_mxfp8_to_block:
            return {"backend": None}
        layer: Any = torch.nn.Module()
        layer.tp_group = None
        fp8.get_parallel = lambda: Space(tp_size=1)
        made.create_weights(layer, k, [n], k, n, torch.bfloat16, weight_loader=lambda *_: None)
        flashinfer: Any = sys.modules.get("flashinfer")
        if flashinfer:
            flashinfer.block_scale_interleave.calls = 0
        made._process_mxfp8_linear_weight_scale(layer)
        calls = flashinfer.block_scale_interleave.calls if flashinfer else 0
        found: dict[str, Any] = {"block_scale_interleave_calls": calls}
        found["backend"] = made.mxfp8_dense_backend.value
        for name in ("weight", "weight_scale_inv"):
            found[name] = _tensor(getattr(layer, name))
        for name in ("weight_scale_inv_swizzled", "weight_scale_inv_deepgemm"):
            if hasattr(layer, name):
                found[name] = _tensor(getattr(layer, name))
        return found

    def dispatch(given: dict[str, Any]) -> Any:
        chosen = fp8_utils.dispatch_w8a8_block_fp8_linear
        if not inspect.signature(chosen).parameters:
            return _named(chosen())
        block, ue8m0 = given["weight_block_size"], given["act_scale_ue8m0"]
        return _named(chosen(weight_block_size=block, act_scale_ue8m0=ue8m0))

    calls: dict[str, Call] = {
        "fp8_utils.initialize_fp8_gemm_config": lambda given: {
            "effective": fp8_utils.get_fp8_gemm_runner_backend().value
        },
        "fp8_utils.resolve_mxfp8_dense_gemm_backend": lambda given: (
            fp8_utils.resolve_mxfp8_dense_gemm_backend().value
        ),
        "fp8_utils.resolve_block_fp8_mxfp8_backend": lambda given: (
            fp8_utils.resolve_block_fp8_mxfp8_backend().value
        ),
        "fp8_utils.dispatch_w8a8_mxfp8_linear": lambda given: _named(
            fp8_utils.dispatch_w8a8_mxfp8_linear()
        ),
        "fp8_utils.can_serve_block_fp8_as_mxfp8": lambda given: (
            fp8_utils.can_serve_block_fp8_as_mxfp8(given["weight_block_size"], given["scale_fmt"])
        ),
        "fp8_utils.dispatch_w8a8_block_fp8_linear": dispatch,
        "Fp8LinearMethod.__init__": method,
        "Fp8LinearMethod._process_mxfp8_linear_weight_scale": scale,
    }
    return {
        **{name: after_flag(call) for name, call in calls.items()},
        "Fp8LinearMethod.validate_block_quant_shapes": shapes,
        "fp8_utils.validate_fp8_block_shape": variant,
    }


def _experts() -> dict[str, Call]:
    overrides = _module("sglang.srt.arg_groups.overrides")
    deep_gemm = _module("sglang.srt.layers.moe.moe_runner.deep_gemm")
    backends = _module("sglang.srt.layers.moe.utils").MoeRunnerBackend
    fp8 = _module("sglang.srt.layers.quantization.fp8")

    def constraints(given: dict[str, Any]) -> Any:
        return overrides._moe_runner_backend_quant_constraints(Space(**given))

    def method(given: dict[str, Any]) -> Any:
        fp8.get_moe_runner_backend = lambda: backends(given["moe_runner_backend"])
        made = fp8.Fp8MoEMethod(fp8.Fp8Config(**given["config"]))
        return {"convert_mxfp8_to_block": made.convert_mxfp8_to_block}

    def info(given: dict[str, Any]) -> Any:
        deep_gemm.DeepGemmMoeQuantInfo(
            w13_weight=None,
            w2_weight=None,
            use_fp8=True,
            use_mxfp8=given["use_mxfp8"],
            block_shape=given["block_shape"],
        )

    return {
        "overrides._moe_runner_backend_quant_constraints": constraints,
        "Fp8MoEMethod.__init__": method,
        "DeepGemmMoeQuantInfo": info,
    }


def _kv_compatibility() -> Any:
    try:
        hook = _module("sglang.srt.arg_groups.kv_cache_hook")
    except ModuleNotFoundError:  # up to 0.5.18
        arguments = _module("sglang.srt.server_args").ServerArgs
        return arguments._handle_mxfp8_kv_cache_compatibility
    hook.resolving_view = lambda args: args
    return hook.handle_mxfp8_kv_cache_compatibility


def _cache() -> dict[str, Call]:
    prologue = _module("sglang.kernels.ops.attention.inkling_attn_prologue")
    compatible = _kv_compatibility()
    overrides = _module("sglang.srt.arg_groups.overrides")
    memory_pool = _module("sglang.srt.mem_cache.memory_pool")

    overrides.use_mla_backend = lambda view: view.mla
    overrides.model_config_of = lambda view: Space(hf_config=Space(architectures=["x"]))

    def hardware(given: dict[str, Any]) -> Any:
        compatible(Space(**given))

    def pool(given: dict[str, Any]) -> Any:
        made = memory_pool.MHATokenToKVPoolMXFP8(
            size=given["size"],
            page_size=given["page_size"],
            dtype=torch.float8_e4m3fn,
            head_num=given["head_num"],
            head_dim=given["head_dim"],
            v_head_dim=given["v_head_dim"],
            layer_num=given["layer_num"],
            device="cpu",
            enable_memory_saver=False,
            enable_alt_stream=False,
        )
        names = ("k_buffer", "v_buffer", "k_scale_buffer", "v_scale_buffer")
        found = {name: _tensor(getattr(made, name)[0]) for name in names}
        scales = made.k_scale_buffer[0].view(torch.uint8), made.v_scale_buffer[0].view(torch.uint8)
        return {**found, "zero_scales": not any(scale.any() for scale in scales)}

    class Reached(Exception):
        """The checks are behind: the kernel comes next."""

    def no_kernel(*arguments: Any) -> Any:
        raise Reached

    prologue._jit_attn_prologue_module = no_kernel

    def call_prologue(given: dict[str, Any]) -> Any:
        function = getattr(prologue, f"inkling_attn_prologue_{given['function']}")
        needed = [
            name
            for name, item in inspect.signature(function).parameters.items()
            if item.default is inspect.Parameter.empty
        ]
        rows, heads = given["k_buf_rows"], max(1, given["dkv"] // 128)
        buffer = torch.empty(rows, heads, 128, dtype=torch.float8_e4m3fn, device="meta")
        values: dict[str, Any] = dict.fromkeys(needed, torch.empty(1, 1, device="meta"))
        values |= {"k_buf": buffer, "v_buf": buffer, "dq": given["dq"], "dkv": given["dkv"]}
        for name in ("sfk", "sfv"):
            values[name] = _scales(given[name])
        mxfp8, page = given["mxfp8_quant"], given["page_size"]
        try:
            function(**values, mxfp8_quant=mxfp8, page_size=page)
        except Reached:
            return {"kernel": given["function"]}
        raise AssertionError("no kernel was asked for")

    return {
        "kv_cache_hook.handle_mxfp8_kv_cache_compatibility": hardware,
        "overrides._fa4_page_constraint": lambda given: overrides._fa4_page_constraint(
            Space(**given, use_mla_backend=lambda: given["mla"])
        ),
        "MHATokenToKVPoolMXFP8.__init__": pool,
        "inkling_attn_prologue": call_prologue,
    }


def _scales(given: dict[str, Any] | None) -> torch.Tensor | None:
    if given is None:
        return None
    shape = given["shape"]
    if given["contiguous"]:
        return torch.empty(shape, dtype=torch.float8_e8m0fnu, device="meta")
    wider = torch.empty([*shape[:-1], shape[-1] + 1], dtype=torch.float8_e8m0fnu, device="meta")
    return wider[..., :-1]
