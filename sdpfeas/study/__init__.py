"""Studies: compare solvers on problems and seeds, in worker processes, with verified verdicts.

:func:`~sdpfeas.study.comparison.make_plan` lists the cells (solver, problem, seed), a
:class:`~sdpfeas.study.runner.Runner` has an engine run them and verifies the claims, and a
:class:`~sdpfeas.study.store.Store` keeps the records. ``report/`` and ``board/`` present them.
"""
