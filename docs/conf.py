"""Sphinx's settings. Pages that follow from the code are written by generators/ when a build begins."""

import sys
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT), str(HERE)]

from generators import links, write  # noqa: E402

from snn.errors import SnnError  # noqa: E402

_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

project = "snn-memory-strategies"
author = "The snn-memory-strategies authors"
copyright = f"2026, {author}"
release = _PROJECT["version"]
version = release
html_title = "snn"

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx_copybutton"]
exclude_patterns = ["_build", "generators", "requirements*"]
highlight_language = "none"

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "deflist"]
nb_execution_mode = "off"
"""Outputs are those in the notebook: tests/test_notebook.py runs it."""

autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_mock_imports = ["cupy", "cupyx", "cupy_backends", "cuda", "torch", "jax"]

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
copybutton_prompt_text = "$ "

linkcheck_timeout = 20
linkcheck_retries = 2


def _rewrite_links(app, docname, source):
    """Links of a page to files outside docs/, which has pages for some of them."""
    page = Path("docs") / Path(app.env.doc2path(docname, base=False))
    if page.suffix == ".md" and not docname.startswith("_generated/"):
        source[0] = links.rewritten(source[0], page, page)


def setup(app):
    try:
        write(HERE / "_generated")
    except SnnError as error:  # without a traceback
        sys.exit(f"docs: {error}")
    app.connect("source-read", _rewrite_links)
