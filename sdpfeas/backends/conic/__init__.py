"""Interface to conic solvers (Clarabel, SCS, any solver of cvxpy).

``cone_program`` holds cone programs and their standard form, ``conic_backend`` the base class of the backends
and the formulation of a feasibility problem as a cone program, ``conic_cost`` cost estimates, ``cvxpy_model``
the way through cvxpy. Each solver has a file next to this folder.
"""
