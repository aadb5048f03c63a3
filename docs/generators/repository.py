"""Pages that are files of the repository, and one for each published set of results."""

from itertools import groupby
from pathlib import Path
from xml.etree import ElementTree

from generators.links import ELSEWHERE, ROOT, rewritten
from generators.markdown import paragraphs
from snn.errors import RecordError
from snn.files.published_sets import README, checked, name_of
from snn.report.published_set import escaped


def pages() -> dict[str, str]:
    copies = {
        Path(page).name: rewritten((ROOT / source).read_text(encoding="utf-8"), Path(source), Path(page))
        for source, page in ELSEWHERE.items()
        if page.startswith("docs/_generated/") and source.endswith(".md")
    }
    folders = checked()
    of_sets = {f"published/{name_of(folder)}.md": published(folder) for folder in folders}
    of_devices = {
        f"published/{of_device.name}/index.md": device(of_device, list(of_it))
        for of_device, of_it in groupby(folders, key=lambda folder: folder.parent)
    }
    return copies | of_sets | of_devices


def device(folder: Path, of_it: list[Path]) -> str:
    """The sets of a device, from the README.md of its folder. Raises RecordError if it is missing."""
    source = folder / README
    if not source.is_file():
        raise RecordError(f"{folder} has no {README}: scripts/redraw makes it")
    page = Path("docs/_generated/published") / folder.name / "index.md"
    text = rewritten(source.read_text(encoding="utf-8"), source.relative_to(ROOT), page)
    listed = "\n".join(f"{path.name} <{path.name}>" for path in of_it)
    return paragraphs(text.rstrip(), f"```{{toctree}}\n:hidden:\n\n{listed}\n```")


def published(folder: Path) -> str:
    """A set's README, its tables to download, and its figures."""
    source = folder.relative_to(ROOT) / "README.md"
    page = Path("docs/_generated/published") / f"{name_of(folder)}.md"
    up = "../../../../" + str(folder.relative_to(ROOT))
    text = rewritten((ROOT / source).read_text(encoding="utf-8"), source, page).rstrip()
    text = text.replace("# Results", f"# {folder.name}: results", 1)
    tables = [f"[{path.stem}]({up}/tables/{path.name})" for path in sorted(folder.glob("tables/*.csv"))]
    figures = [
        f"![{escaped(in_words(path))}]({up}/figures/{path.name})"
        for path in sorted(folder.glob("figures/*.svg"))
    ]
    parts = [text]
    if tables:
        parts.append("## Tables\n\nAs CSV files: " + ", ".join(tables) + ".")
    if figures:
        parts.append("## Figures\n\n" + "\n\n".join(figures))
    return "\n\n".join(parts) + "\n"


def in_words(figure: Path) -> str:
    """The title and description in an SVG file; its file name if it has none."""
    root = ElementTree.parse(figure).getroot()
    said = [root.findtext(f"{{*}}{name}") for name in ("title", "desc")]
    return ". ".join(filter(None, said)) or figure.stem
