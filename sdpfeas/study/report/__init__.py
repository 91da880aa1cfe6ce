"""Reports on a study: one HTML file that works offline, Markdown, and charts as PNG and SVG files."""

from sdpfeas.study.report.pages import render_html, render_markdown

__all__ = ["render_html", "render_markdown"]
