"""Models: a config.json becomes the GEMM shapes of one rank."""
