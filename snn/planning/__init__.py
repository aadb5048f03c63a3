"""What a cell will need, before anything is trained: device memory by kind, a budget, and remedies."""
