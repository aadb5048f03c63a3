"""Pages that are files of the repository, and one for each published set of results."""

from pathlib import Path

from generators.links import ELSEWHERE, ROOT, rewritten

PUBLISHED = ROOT / "results/published"


def pages() -> dict[str, str]:
    copies = {
        Path(page).name: rewritten((ROOT / source).read_text(encoding="utf-8"), Path(source), Path(page))
        for source, page in ELSEWHERE.items()
        if page.startswith("docs/_generated/")
    }
    return copies | {f"published/{folder.name}.md": published(folder) for folder in sets()}


def sets() -> list[Path]:
    """The folders of published results, each with a README.md."""
    return sorted(path.parent for path in PUBLISHED.glob("*/README.md"))


def published(folder: Path) -> str:
    """What the set is, its tables to download, and its figures."""
    source = folder.relative_to(ROOT) / "README.md"
    page = Path("docs/_generated/published") / f"{folder.name}.md"
    up = "../../../" + str(folder.relative_to(ROOT))
    text = rewritten((ROOT / source).read_text(encoding="utf-8"), source, page).rstrip()
    text = text.replace("# ", f"# {folder.name}: ", 1)
    tables = [f"[{path.stem}]({up}/tables/{path.name})" for path in sorted(folder.glob("tables/*.csv"))]
    figures = [f"![{path.stem}]({up}/figures/{path.name})" for path in sorted(folder.glob("figures/*.svg"))]
    parts = [text]
    if tables:
        parts.append("## Tables\n\nAs CSV files: " + ", ".join(tables) + ".")
    if figures:
        parts.append("## Figures\n\n" + "\n\n".join(figures))
    return "\n\n".join(parts) + "\n"
