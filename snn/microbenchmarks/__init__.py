"""Costs of single memory operations, measured without training: one module per microbenchmark."""
