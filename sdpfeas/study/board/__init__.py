"""The board: a study of all solvers on public problems, and the site that says who was right."""
