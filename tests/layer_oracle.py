"""The oracle of layers: training in float64 by their formulae, with nothing in common with the engine."""

import itertools
import math

import numpy as np


class Linear:
    def __init__(self, W, b=None):
        self.parameters = [W] if b is None else [W, b]

    def forward(self, x):
        W, *b = self.parameters
        self.x, self.shape = x.reshape(len(x), -1), x.shape
        return sum(b, np.einsum("ri,ij->rj", self.x, W))

    def gradients(self, dy):
        return [np.einsum("ri,rj->ij", self.x, dy), dy.sum(axis=0)][: len(self.parameters)]

    def backward(self, dy):
        return np.einsum("rj,ij->ri", dy, self.parameters[0]).reshape(self.shape)


class Conv2d:
    """Of images (rows, channels, height, width) by filters (filters, channels * kernel * kernel)."""

    def __init__(self, W, b, kernel, padding, stride=1):
        self.parameters, self.kernel, self.padding, self.stride = [W, b], kernel, padding, stride

    def forward(self, x):
        p, k, s, (W, b) = self.padding, self.kernel, self.stride, self.parameters
        self.x = np.pad(x, ((0, 0), (0, 0), (p, p), (p, p)))
        windows = np.lib.stride_tricks.sliding_window_view(self.x, (k, k), axis=(2, 3))
        self.windows = windows[:, :, ::s, ::s]  # row, channel, place (i, j), element (y, x) of the kernel
        return np.einsum("rcijyx,fcyx->rfij", self.windows, W.reshape(len(W), -1, k, k)) + b[:, None, None]

    def gradients(self, dy):
        dW = np.einsum("rfij,rcijyx->fcyx", dy, self.windows)
        return [dW.reshape(self.parameters[0].shape), dy.sum(axis=(0, 2, 3))]

    def backward(self, dy):
        k, p, s, dx = self.kernel, self.padding, self.stride, np.zeros_like(self.x)
        W = self.parameters[0].reshape(len(self.parameters[0]), -1, k, k)
        high, wide = (s * side for side in dy.shape[2:])
        for y, x in np.ndindex(k, k):
            dx[:, :, y : y + high : s, x : x + wide : s] += np.einsum("rfij,fc->rcij", dy, W[:, :, y, x])
        return dx[:, :, p : dx.shape[2] - p, p : dx.shape[3] - p]


class ReLU:
    parameters = ()
    closest = np.inf
    """The smallest of its inputs, apart from 0: where it is tiny, rounding decides which side it is on."""

    def forward(self, x):
        self.x = x
        self.closest = min(self.closest, np.abs(x[x != 0]).min(initial=np.inf))
        return np.where(x > 0, x, 0.0)

    def backward(self, dy):
        return np.where(self.x > 0, dy, 0.0)


class LeakyReLU(ReLU):
    def forward(self, x):
        return super().forward(x) + 0.01 * np.minimum(x, 0.0)

    def backward(self, dy):
        return np.where(self.x > 0, dy, 0.01 * dy)


class Smooth:
    """An activation function from its value and its derivative at a number."""

    parameters = ()

    def forward(self, x):
        self.x = x
        return np.vectorize(self.value, otypes=[float])(x)

    def backward(self, dy):
        return dy * np.vectorize(self.slope, otypes=[float])(self.x)


class Tanh(Smooth):
    def value(self, x):
        return math.tanh(x)

    def slope(self, x):
        return 1 / math.cosh(x) ** 2


class Sigmoid(Smooth):
    def value(self, x):
        return 1 / (1 + math.exp(-x))

    def slope(self, x):
        return math.exp(-x) / (1 + math.exp(-x)) ** 2


class SiLU(Smooth):
    def value(self, x):
        return x / (1 + math.exp(-x))

    def slope(self, x):
        return (1 + math.exp(-x) + x * math.exp(-x)) / (1 + math.exp(-x)) ** 2


class GELU(Smooth):
    def value(self, x):
        return x * math.erfc(-x / math.sqrt(2)) / 2

    def slope(self, x):
        return math.erfc(-x / math.sqrt(2)) / 2 + x * math.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)


class ELU(Smooth):
    def value(self, x):
        return x if x > 0 else math.exp(x) - 1

    def slope(self, x):
        return 1.0 if x > 0 else math.exp(x)


class Identity(Smooth):
    def value(self, x):
        return x

    def slope(self, x):
        return 1.0


def windows_of(x, size):
    """The elements of each window that is whole: row, channel, place (i, j), element."""
    high, wide = (side // size for side in x.shape[2:])
    blocks = x[:, :, : high * size, : wide * size].reshape(*x.shape[:2], high, size, wide, size)
    return blocks.swapaxes(3, 4).reshape(*x.shape[:2], high, wide, size * size)


def spread(windows, size, shape):
    """Images of a shape from the elements of each of their windows; 0 outside."""
    images, (high, wide) = np.zeros(shape), windows.shape[2:4]
    blocks = windows.reshape(*shape[:2], high, wide, size, size).swapaxes(3, 4)
    images[:, :, : high * size, : wide * size] = blocks.reshape(*shape[:2], high * size, wide * size)
    return images


class MaxPool2d:
    parameters = ()
    closest = np.inf
    """The smallest difference of two inputs of a window, apart from 0."""

    def __init__(self, size):
        self.size = size

    def forward(self, x):
        self.windows, self.shape = windows_of(x, self.size), x.shape
        differences = np.diff(np.sort(self.windows), axis=-1)
        self.closest = min(self.closest, differences[differences != 0].min(initial=np.inf))
        return self.windows.max(axis=-1)

    def backward(self, dy):
        first = self.windows.argmax(axis=-1)[..., None] == np.arange(self.size**2)
        return spread(first * dy[..., None], self.size, self.shape)


class LayerNorm:
    closest = np.inf
    """A measure of the smallest deviation of a row, which divides what rounding does to it."""

    def __init__(self, W, b):
        self.parameters = [W, b]

    def forward(self, x):
        self.shape, rows = x.shape, x.reshape(len(x), -1)
        self.deviation = np.array([math.sqrt(np.var(row) + 1e-5) for row in rows])
        self.closest = min(self.closest, 1e-5 * self.deviation.min())
        self.normed = np.array(
            [(row - np.mean(row)) / d for row, d in zip(rows, self.deviation, strict=True)]
        )
        return (self.normed * self.parameters[0] + self.parameters[1]).reshape(x.shape)

    def gradients(self, dy):
        dy = dy.reshape(len(dy), -1)
        return [(dy * self.normed).sum(axis=0), dy.sum(axis=0)]

    def backward(self, dy):
        dx = []
        for g, n, d in zip(dy.reshape(len(dy), -1), self.normed, self.deviation, strict=True):
            slopes = (np.eye(len(n)) - 1 / len(n) - np.outer(n, n) / len(n)) / d  # of each output, by inputs
            dx.append(slopes @ (g * self.parameters[0]))
        return np.array(dx).reshape(self.shape)


class BatchNorm2d:
    """Images, (rows, channels, height, width); ``trains`` is false in a prediction."""

    trains = True

    def __init__(self, W, b, A, V):
        self.parameters, self.running = [W, b], [A, V]

    def forward(self, x):
        y = np.empty_like(x)
        self.normed, self.deviation = np.empty_like(x), np.empty(x.shape[1])
        for c, one in enumerate(np.moveaxis(x, 1, 0)):
            mean, variance = (
                (np.mean(one), np.var(one)) if self.trains else (self.running[0][c], self.running[1][c])
            )
            self.deviation[c] = math.sqrt(variance + 1e-5)
            self.normed[:, c] = (one - mean) / self.deviation[c]
            y[:, c] = self.normed[:, c] * self.parameters[0][c] + self.parameters[1][c]
            if self.trains:
                self.running[0][c] = 0.9 * self.running[0][c] + 0.1 * mean
                self.running[1][c] = 0.9 * self.running[1][c] + 0.1 * np.var(one, ddof=1)
        return y

    def gradients(self, dy):
        axes = (0, *range(2, dy.ndim))
        return [(dy * self.normed).sum(axis=axes), dy.sum(axis=axes)]

    def backward(self, dy):
        dx = np.empty_like(dy)
        for c, (g, n) in enumerate(zip(np.moveaxis(dy, 1, 0), np.moveaxis(self.normed, 1, 0), strict=True)):
            flat = n.ravel()
            slopes = (np.eye(len(flat)) - 1 / len(flat) - np.outer(flat, flat) / len(flat)) / self.deviation[
                c
            ]
            dx[:, c] = (slopes @ g.ravel() * self.parameters[0][c]).reshape(g.shape)
        return dx


class BatchNorm1d(BatchNorm2d):
    """Rows of features."""


class Flatten:
    parameters = ()

    def forward(self, x):
        self.shape = x.shape
        return x.reshape(len(x), -1)

    def backward(self, dy):
        return dy.reshape(self.shape)


def philox(a, b, c, key):
    """Random123's philox4x32-10 of the counter (a, b, c, 0) and a key of two words."""
    counter, key = [a, b, c, 0], list(key)
    for _ in range(10):
        one, two = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [
            (two >> 32) ^ counter[1] ^ key[0],
            two % 2**32,
            (one >> 32) ^ counter[3] ^ key[1],
            one % 2**32,
        ]
        key = [(k + w) % 2**32 for k, w in zip(key, (0x9E3779B9, 0xBB67AE85), strict=True)]
    return counter


class Dropout:
    """The layer of this number in the network: a step is a forward pass, until ``trains`` is false."""

    parameters = ()
    trains = True

    def __init__(self, p, number, seed):
        self.p, self.number, self.seed, self.step = float(np.float32(p)), number, seed, 0

    def forward(self, x):
        if not self.trains:
            return x
        words = [philox(e // 4, self.step, self.number, (self.seed, 1))[e % 4] for e in range(x.size)]
        self.scale = np.array([0.0 if w < self.p * 2**32 else 1 / (1 - self.p) for w in words]).reshape(
            x.shape
        )
        self.step += 1
        return x * self.scale

    def backward(self, dy):
        return dy * self.scale


class AvgPool2d:
    parameters = ()

    def __init__(self, size):
        self.size = size

    def forward(self, x):
        self.shape = x.shape
        return windows_of(x, self.size).mean(axis=-1)

    def backward(self, dy):
        return spread(np.repeat(dy[..., None] / self.size**2, self.size**2, -1), self.size, self.shape)


def predict(layers, x):
    """The outputs for images or columns x, (n, outputs)."""
    for layer in layers:
        x = layer.forward(x)
    return x.reshape(len(x), -1)


class Sgd:
    """PyTorch's SGD, in the words of its documentation; ``kept`` has each parameter's momentum buffer."""

    def __init__(self, momentum=0.0, nesterov=False, weight_decay=0.0):
        self.momentum, self.nesterov, self.weight_decay, self.kept = momentum, nesterov, weight_decay, {}

    def __call__(self, theta, g, rate):
        g = g + self.weight_decay * theta
        if self.momentum:
            first = id(theta) not in self.kept
            b = g.copy() if first else self.momentum * self.kept[id(theta)] + g
            self.kept[id(theta)] = b
            g = g + self.momentum * b if self.nesterov else b
        theta -= rate * g


class Adam:
    """PyTorch's Adam, in the words of its documentation."""

    decoupled = False

    def __init__(self, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0):
        self.betas, self.eps, self.weight_decay, self.kept = (beta1, beta2), eps, weight_decay, {}

    def __call__(self, theta, g, rate):
        if self.decoupled:
            theta -= rate * self.weight_decay * theta
        else:
            g = g + self.weight_decay * theta
        (beta1, beta2), (m, v, t) = self.betas, self.kept.get(id(theta), (0.0, 0.0, 0))
        m, v, t = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g**2, t + 1
        self.kept[id(theta)] = m, v, t
        theta -= rate * (m / (1 - beta1**t)) / (np.sqrt(v / (1 - beta2**t)) + self.eps)


class AdamW(Adam):
    decoupled = True

    def __init__(self, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.01):
        super().__init__(beta1, beta2, eps, weight_decay)


def huber(outputs, targets):
    """PyTorch's HuberLoss, by its documentation, with delta = 1."""
    losses, slopes = np.empty(outputs.shape), np.empty(outputs.shape)
    for at in np.ndindex(outputs.shape):
        e = outputs[at] - targets[at]
        losses[at] = e**2 / 2 if abs(e) < 1 else abs(e) - 1 / 2
        slopes[at] = e if abs(e) < 1 else math.copysign(1, e)
    return losses, slopes


def binary_cross_entropy(outputs, targets):
    """PyTorch's BCEWithLogitsLoss, by its documentation; a target of several outputs is a label."""
    if targets.shape != outputs.shape:
        targets = np.eye(outputs.shape[1])[targets[:, 0].astype(int)]
    p = 1 / (1 + np.exp(-outputs))
    return -(targets * np.log(p) + (1 - targets) * np.log(1 - p)), p - targets


CRITERIA = {"huber": huber, "binary_cross_entropy": binary_cross_entropy}
"""Losses of single outputs by name."""


def train(
    layers,
    X,
    Y,
    *,
    steps,
    batch_size,
    rate,
    sequential,
    clip_norm,
    cross_entropy,
    summed=False,
    kept=None,
    descend=None,
    factors=None,
    clip_together=None,
    criterion=None,
):
    """The losses of the last epoch's batches, each before its update; layers hold what was trained.

    ``summed``: along the gradient of the sum of a batch's losses. ``kept``: how many of the outputs'
    gradients, row by row, are not taken for 0; a function of the rows. ``descend``: an optimiser.
    ``factors``: of the rate, one for each step. ``clip_together``: most norm of all gradients together.
    ``criterion``: a loss of each output from the outputs and the targets, and its derivative.
    """
    descend = descend or Sgd()
    starts = range(0, len(X), batch_size)
    factors = iter(factors or itertools.repeat(1))
    for _ in range(steps):
        losses = []
        for start in starts:
            x, y = X[start : start + batch_size], Y[start : start + batch_size]
            x = predict(layers, x)
            if criterion:
                each, dy = criterion(x, y.reshape(len(y), -1))
                loss, dy = each.mean(), dy / (len(y) if summed else each.size)
            elif cross_entropy:
                p = np.exp(x - x.max(axis=1, keepdims=True))
                p /= p.sum(axis=1, keepdims=True)
                loss, dy = -np.log(p[np.arange(len(y)), y]).mean(), p
                dy[np.arange(len(y)), y] -= 1
                dy /= len(y)
            else:
                loss, dy = ((x[:, 0] - y) ** 2).mean(), 2 * (x - y[:, None]) / len(y)
            losses.append(loss)
            dy = dy * len(y) if summed else dy
            if kept is not None:
                dy.reshape(-1)[kept(len(y)) :] = 0
            rate_now, due = rate * next(factors), []
            for layer in reversed(layers):
                gradients = layer.gradients(dy) if layer.parameters else []
                dx = None if sequential else layer.backward(dy)
                for parameter, gradient in zip(layer.parameters, gradients, strict=True):
                    norm = np.sqrt((gradient**2).sum())
                    if clip_norm is not None and norm > clip_norm:
                        gradient = gradient * clip_norm / (norm + 1e-6)
                    due.append((parameter, gradient))
                if clip_together is None:
                    while due:
                        descend(*due.pop(0), rate_now)
                dy = layer.backward(dy) if sequential else dx
            norm = np.sqrt(sum((gradient**2).sum() for _, gradient in due))
            for parameter, gradient in due:
                descend(parameter, gradient * min(1, clip_together / (norm + 1e-6)), rate_now)
    return losses
