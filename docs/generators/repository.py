"""Pages that are files of the repository, and one for each published set of results."""

from pathlib import Path

from generators.links import ELSEWHERE, ROOT, rewritten
from generators.markdown import paragraphs
from snn.files.published_sets import PUBLISHED, name_of, sets


def pages() -> dict[str, str]:
    copies = {
        Path(page).name: rewritten((ROOT / source).read_text(encoding="utf-8"), Path(source), Path(page))
        for source, page in ELSEWHERE.items()
        if page.startswith("docs/_generated/")
    }
    of_sets = {f"published/{name_of(folder)}.md": published(folder) for folder in sets()}
    of_devices = {f"published/{path.parent.name}/index.md": device(path) for path in _of_devices()}
    return copies | of_sets | of_devices


def _of_devices() -> list[Path]:
    return sorted(PUBLISHED.glob("*/README.md"))


def device(source: Path) -> str:
    """The sets of a device, from the README.md of its folder."""
    page = Path("docs/_generated/published") / source.parent.name / "index.md"
    text = rewritten(source.read_text(encoding="utf-8"), source.relative_to(ROOT), page)
    names = sorted(path.parent.name for path in source.parent.glob("*/README.md"))
    listed = "\n".join(f"{name} <{name}>" for name in names)
    return paragraphs(text.rstrip(), f"```{{toctree}}\n:hidden:\n\n{listed}\n```")


def published(folder: Path) -> str:
    """What the set is, its tables to download, and its figures."""
    source = folder.relative_to(ROOT) / "README.md"
    page = Path("docs/_generated/published") / f"{name_of(folder)}.md"
    up = "../../../../" + str(folder.relative_to(ROOT))
    text = rewritten((ROOT / source).read_text(encoding="utf-8"), source, page).rstrip()
    text = text.replace("# Results", f"# {folder.name}: results", 1)
    tables = [f"[{path.stem}]({up}/tables/{path.name})" for path in sorted(folder.glob("tables/*.csv"))]
    figures = [f"![{path.stem}]({up}/figures/{path.name})" for path in sorted(folder.glob("figures/*.svg"))]
    parts = [text]
    if tables:
        parts.append("## Tables\n\nAs CSV files: " + ", ".join(tables) + ".")
    if figures:
        parts.append("## Figures\n\n" + "\n\n".join(figures))
    return "\n\n".join(parts) + "\n"
