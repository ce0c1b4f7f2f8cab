"""The fused MXFP8 attention prologue and the paged KV cache."""
