"""What a deployment's GPU, toolkit, packages and environment make true, in SGLang's own terms."""

import re
from collections.abc import Mapping

from mxlab.errors import InputError, quote
from mxlab.guards.facts import Deployment, Platform
from mxlab.guards.releases import release
from mxlab.hardware import Gpu, gpu

_TOOLKIT = re.compile(r"(\d{1,3})\.(\d{1,3})(?:\.\d{1,3})?")
_TRUE = ("true", "1")
_TRUE_NEW = (*_TRUE, "yes", "y")  # variables of SGLang's newer environment module


def env_flag(env: Mapping[str, str], name: str, default: bool = False, *, new: bool = True) -> bool:
    """Tell whether an environment variable is on, the way SGLang reads it.

    ``new`` is False for the variables that accept only ``true`` and ``1``.

    >>> env_flag({"SGLANG_USE_AITER": "1"}, "SGLANG_USE_AITER")
    True
    """
    if name not in env:
        return default
    return env[name].lower() in (_TRUE_NEW if new else _TRUE)


def toolkit_version(text: str) -> tuple[int, int]:
    """Return (major, minor) of a CUDA or ROCm version; InputError where it is not one.

    >>> toolkit_version("12.8")
    (12, 8)
    """
    found = _TOOLKIT.fullmatch(text.strip()) if isinstance(text, str) and len(text) < 20 else None
    if found is None:
        raise InputError(f"toolkit is {quote(text)}: expected MAJOR.MINOR, such as 12.8")
    return int(found[1]), int(found[2])


def platform(deployment: Deployment) -> Platform:
    """Return the platform facts of a deployment.

    Raises InputError for an unknown GPU or a toolkit that is not a version. Source: sglang 0.5.23,
    srt/utils/common.py (architecture tests) and srt/layers/deep_gemm_wrapper/configurer.py:32.
    The installed DeepGEMM is taken to be one that has the SM120 functions.

    >>> facts = platform(Deployment(gpu="b200"))
    >>> facts.sm100, facts.blackwell, facts.ue8m0
    (True, True, True)
    >>> platform(Deployment(gpu="b200", toolkit="12.4")).blackwell
    False
    """
    device: Gpu = gpu(deployment.gpu)
    version = toolkit_version(device.toolkit if deployment.toolkit is None else deployment.toolkit)
    env = deployment.env
    cuda, hip = device.vendor == "nvidia", device.vendor == "amd"
    major, minor = device.capability
    capability = major * 10 + minor if cuda or hip else None

    def arch(majors: tuple[int, ...], oldest: tuple[int, int]) -> bool:
        return cuda and major in majors and version >= oldest

    rules = release(deployment.version)
    sm100, sm120 = arch((10,), (12, 8)), arch((12,), (12, 8))
    deep_gemm = (
        cuda
        and env_flag(env, "SGLANG_ENABLE_JIT_DEEPGEMM", default=True)
        and major * 10 + minor >= 90
        and (rules.deep_gemm_sm120 or capability != 120)
        and "deep_gemm" in deployment.packages
    )
    aiter = hip and env_flag(env, "SGLANG_USE_AITER")
    gfx1250 = hip and "gfx1250" in device.arch
    return Platform(
        gpu=device,
        capability=capability,
        toolkit=version,
        cuda=cuda,
        hip=hip,
        sm90=arch((9,), (12, 3)),
        sm100=sm100,
        sm110=arch((11,), (12, 8)),
        sm120=sm120,
        blackwell=arch((10, 11, 12), (12, 8)),
        gfx942=hip and "gfx942" in device.arch,
        gfx95=hip and "gfx95" in device.arch,
        gfx1250=gfx1250,
        flashinfer=cuda
        and "flashinfer" in deployment.packages
        and env_flag(env, "SGLANG_IS_FLASHINFER_AVAILABLE", default=True, new=False),
        deep_gemm=deep_gemm,
        ue8m0=deep_gemm and (sm100 or (rules.deep_gemm_sm120 and capability in (120, 121))),
        aiter=aiter and not gfx1250,
        aiter_moe=aiter,
        force_block=env_flag(env, "SGLANG_FORCE_MXFP8_BLOCK_CONVERT", new=False),
        force_block_dense=hip
        and rules.convert_dense
        and env_flag(env, "SGLANG_FORCE_MXFP8_BLOCK_CONVERT_DENSE"),
        release=rules,
    )
