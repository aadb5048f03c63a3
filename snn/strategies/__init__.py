"""Memory-management strategies: how memory is allocated and moved in training. A module per family."""
