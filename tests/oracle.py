"""Training as the equations say, in float64 and with nothing in common with the engine: the oracle."""

import numpy as np


def train(weights, X, Y, *, epochs, batch_size, rate, update_order="sequential", clip_norm=None):
    """Weights after training and the loss of the last batch before its update, all in float64."""
    W = [w.astype(np.float64) for w in weights]
    X, Y = X.astype(np.float64), Y.astype(np.float64)
    loss = None
    for _ in range(epochs):
        for start in range(0, len(X), batch_size):
            x, y = X[start : start + batch_size], Y[start : start + batch_size]
            H = [x]
            for w in W[:-1]:
                H.append(np.where(H[-1] @ w > 0, H[-1] @ w, 0.0))
            prediction = H[-1] @ W[-1]
            loss = np.mean((prediction - y) ** 2)
            dZ = 2 * (prediction - y) / len(x)
            new = [None] * len(W)
            for i in range(len(W) - 1, -1, -1):
                dW = H[i].T @ dZ
                norm = np.sqrt((dW**2).sum())
                if clip_norm is not None and norm > clip_norm:
                    dW = dW * clip_norm / (norm + 1e-6)
                new[i] = W[i] - rate * dW
                through = new[i] if update_order == "sequential" else W[i]
                if i > 0:
                    dZ = np.where(H[i] > 0, dZ @ through.T, 0.0)
            W = new
    return W, loss
