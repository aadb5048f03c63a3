"""What single operations on memory cost, measured without a training: one module per microbenchmark."""
