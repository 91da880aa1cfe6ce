"""Sphinx configuration. `make docs` builds the site into site/ and treats warnings as errors."""

import sdpfeas

project = "sdpfeas"
author = "The sdpfeas authors"
copyright = "the sdpfeas authors"  # noqa: A001 - Sphinx's name for it
version = release = sdpfeas.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["gallery/*"]
nitpicky = False

html_theme = "furo"
html_title = f"sdpfeas {version}"
html_show_sourcelink = False
highlight_language = "none"  # blocks without a language are commands or formulas

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings state the types
napoleon_google_docstring = False
napoleon_use_ivar = True

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "examples",
    "filename_pattern": r"/[a-z_]+\.py$",
    "within_subsection_order": "FileNameSortKey",
    "remove_config_comments": True,
    "download_all_examples": False,
    "show_signature": False,
    "abort_on_example_error": True,
    "write_computation_times": False,
}


def _keep_colons(app, what, name, obj, options, lines):
    """Replace the first colon of a property, which Napoleon would parse as the end of a type."""
    if what == "property" and lines:
        lines[0] = lines[0].replace(": ", " – ", 1)


def setup(app):
    """Register the filter with a priority before that of Napoleon (500)."""
    app.connect("autodoc-process-docstring", _keep_colons, priority=400)
