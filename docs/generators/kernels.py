"""The kernel files with what their first comments say, and the choices that use them."""

import re
from pathlib import Path

from generators.links import ROOT
from generators.markdown import code, first_comment, paragraphs, table
from snn.config.groups import CONFIG, names, read_yaml

KERNELS = ROOT / "kernels"
TOPICS = {
    ".": "Products and element-wise work",
    "convolution": "Convolutions",
    "layers": "Other layers and losses",
    "persistent": "One-launch training",
    "persistent/special": "One-launch training for special shapes",
    "persistent/whole": "One-launch training of networks that one block holds",
    "access": "Patterns of memory access",
    "limits": "Limits of the device",
}


def pages() -> dict[str, str]:
    return {"kernels.md": page()}


def page() -> str:
    """The choices, then the files by folder."""
    rows = [_choice(name) for name in names("kernel")]
    return paragraphs(
        "# Kernel files",
        "A kernel of `config/kernel/` is a choice for matrix products; its file is compiled when a cell "
        "needs it. The other files are used by strategies and measurements. Each entry is the first comment "
        "of the file.",
        table(["kernel", "what it is", "file", "precisions", "fused"], rows),
        *(_topic(folder) for folder in folders()),
    )


def folders() -> list[str]:
    """The folders of kernel files; one without a heading here is a KeyError."""
    return sorted(
        {str(path.parent.relative_to(KERNELS)) for path in KERNELS.rglob("*.cu")}, key=list(TOPICS).index
    )


def header(path: Path) -> str:
    """The first comment of a CUDA file. Raises ValueError if it has none."""
    found = re.match(r"((?://[^\n]*\n)+)", path.read_text(encoding="utf-8"))
    if not found:
        raise ValueError(f"{path}: a kernel file begins with a comment that says what it computes")
    return re.sub(r"^// ?", "", found[1], flags=re.MULTILINE)


def _choice(name: str) -> list[str]:
    path = CONFIG / "kernel" / f"{name}.yaml"
    given = read_yaml(path)
    said = first_comment(path.read_text(encoding="utf-8"))
    file = f"[{given['source']}](../../{given['source']})" if given["source"] else "NVIDIA's library"
    return [f"`{name}`", said, file, ", ".join(given["precisions"]), "yes" if given["fused"] else "no"]


def _topic(folder: str) -> str:
    files = sorted((KERNELS / folder).glob("*.cu"))
    parts = [f"### {path.relative_to(KERNELS)}\n\n{code(header(path))}" for path in files]
    return paragraphs(f"## {TOPICS[folder]}", *parts)
