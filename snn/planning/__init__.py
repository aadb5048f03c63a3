"""Predictions before anything is trained: a cell's device memory by kind, its budget, and remedies."""
