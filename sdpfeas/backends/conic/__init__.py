"""Interface to conic solvers (Clarabel, SCS, any solver of cvxpy).

``conic_backend`` has the base class of the backends, which solve the cone form of a problem
(:mod:`sdpfeas.problem.conic_form`), and ``conic_cost`` cost estimates. Each solver has a file next to this
folder.
"""
