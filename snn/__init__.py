"""Shallow neural network training under many memory-management strategies, and its measurement."""
