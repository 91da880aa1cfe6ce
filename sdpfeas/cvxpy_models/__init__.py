"""Convert cvxpy problems to feasibility problems, and results back to cvxpy's variables and constraints.

:func:`convert` accepts a problem only if its canonical form is exactly equivalent (:mod:`accepted_atoms`,
checked at random points by :mod:`comparison`). The form ``b - A x`` in cones is compiled by cvxpy
(:mod:`canonical_form`), then cut into blocks, rows and LMIs (:mod:`blocks`). :mod:`models` is the front for
users: solve, verify, optimum and bisect of a model.
"""

from sdpfeas.cvxpy_models.conversion import CvxpyForm, convert, from_cvxpy

__all__ = ["CvxpyForm", "convert", "from_cvxpy"]
