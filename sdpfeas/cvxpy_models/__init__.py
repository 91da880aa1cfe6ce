"""cvxpy problems as feasibility problems, and points back as values of cvxpy's variables.

A problem is taken only if its canonical form says exactly what the problem says (``accepted``), and every row
and column of that form is accounted for (``canonical``). The form is then cut into blocks (``blocks``).
"""

from sdpfeas.cvxpy_models.conversion import CvxpyForm, convert, from_cvxpy

__all__ = ["CvxpyForm", "convert", "from_cvxpy"]
