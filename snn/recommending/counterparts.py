"""The counterpart of a strategy in PyTorch: a section of a how-to guide, and what it says in a few words."""

from snn.files.project import shown_path

PAGE = "docs/howto/from_the_answer_to_your_code.md"

_SECTIONS = {
    "reference": ("a DataLoader and .to(device)", "reference synchronous torch_loader"),
    "pinned": ("pin_memory=True and non_blocking=True", "pinned"),
    "pipelined": ("copy the next batch on a second stream", "streams combined combined_kept pipelined"),
    "preallocated": (
        "nothing to change, its allocator does that",
        "preallocated workspace pool async_pool keepalive managed managed_kept managed_prefetch mapped",
    ),
    "resident": ("keep the data on the device", "resident torch_eager"),
    "graph": ("torch.cuda.graph around an epoch", "graph graph_pdl graph_loop torch_graph"),
    "compile": ('torch.compile(mode="reduce-overhead")', "torch_compile"),
    "persistent": ("none; use snn.estimators", "persistent"),
    "many": ("torch.bmm over all networks, in a graph", "ensemble torch_bmm"),
    "cpu": ("train on the CPU, with one thread", "blas sequential threads"),
    "jax": ("none; jax.lax.scan in JAX", "jax_scan jax_vmap"),
}
"""A section's words, and the strategies that it is about."""


def counterpart(strategy: str) -> str:
    """A line that names the counterpart of a strategy; empty for one that the guide does not have."""
    for section, (words, strategies) in _SECTIONS.items():
        if strategy in strategies.split():
            return f"{strategy} in PyTorch: {words} ({shown_path(PAGE)}#{section})."
    return ""
