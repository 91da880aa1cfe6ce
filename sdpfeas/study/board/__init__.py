"""The board: a study of all solvers on public problems, and a site that holds statuses against proofs."""
