"""Memory-management strategies: how memory is allocated and moved in training. One module per strategy."""
