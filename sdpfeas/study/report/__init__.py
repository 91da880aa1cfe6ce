"""Reports on a study: one HTML file that works offline, Markdown, and charts as PNG and SVG files."""

from sdpfeas.study.report.markdown import render_markdown
from sdpfeas.study.report.pages import render_html

__all__ = ["render_html", "render_markdown"]
