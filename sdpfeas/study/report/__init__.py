"""Reports about a study: one self-contained HTML file, Markdown, figures."""

from sdpfeas.study.report.html import render_html
from sdpfeas.study.report.markdown import render_markdown

__all__ = ["render_html", "render_markdown"]
