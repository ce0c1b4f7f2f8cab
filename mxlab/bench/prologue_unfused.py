"""The prologue of extend as separate torch operations: what a fused kernel is held against."""

import torch
from torch import Tensor

from mxlab.attention.arguments import Arguments


def _convolve(x: Tensor, weight: Tensor) -> Tensor:
    """Depthwise causal convolution with residual, bfloat16 in and out, without history."""
    wide = x.float()
    taps = weight.shape[1]
    y = torch.zeros_like(wide)
    for tap in range(taps):
        back = taps - 1 - tap
        y[back:] += wide[: len(x) - back] * weight[:, tap].float()
    return (y + wide).bfloat16()


def _norm(x: Tensor, gamma: Tensor, eps: float) -> Tensor:
    wide = x.float().view(len(x), -1, 128)
    inv = torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return ((wide * inv) * gamma.float()).bfloat16()


def _quantize(x: Tensor) -> tuple[Tensor, Tensor]:
    """E4M3 codes and scale bytes of [T, heads, 128], by the prologue's rule on finite values."""
    blocks = x.reshape(*x.shape[:2], 4, 32)
    word = blocks.abs().amax(-1).view(torch.int16).int()
    byte = ((word >> 7) - 8 + ((word & 0x7F) > 0x60)).clamp(min=19)
    scaled = blocks.float() * torch.exp2(127 - byte.float())[..., None]
    codes = scaled.clamp(-448, 448).to(torch.float8_e4m3fn).view(torch.uint8)
    return codes.view(*x.shape), byte.to(torch.uint8)


def unfused_extend(a: Arguments) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return q, k, v and the Q scales, and store K and V, for sequences without history.

    Tokens at the beginning of a sequence see the one before them: timing needs no more.
    """
    t = a.tokens
    q = _norm(a.qkvr[:, a.q_off : a.q_off + a.dq], a.q_gamma, a.eps)
    k = _convolve(a.qkvr[:, a.k_off : a.k_off + a.dkv], a.k_weight)
    k = _norm(k, a.k_gamma, a.eps)
    v = _convolve(a.qkvr[:, a.v_off : a.v_off + a.dkv], a.v_weight).view(t, -1, 128)
    codes, scales = _quantize(q)
    row = a.loc % a.page_size
    head = torch.arange(a.kv_heads, device=a.loc.device)
    for x, buffer, sf in ((k, a.k_buf, a.sfk), (v, a.v_buf, a.sfv)):
        code, byte = _quantize(x)
        buffer[a.loc] = code
        page = (a.loc // a.page_size)[:, None]
        sf[page, head, (row % 32)[:, None], (row // 32)[:, None]] = byte
    flat = (t, a.dkv)
    return codes.view(t, a.dq).view(torch.float8_e4m3fn), k.view(flat), v.reshape(flat), scales
