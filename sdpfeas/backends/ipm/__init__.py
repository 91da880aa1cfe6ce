"""The primal–dual interior-point method over PSD, SecondOrder, Nonneg, Free and SpectralBox blocks.

``spectral_ipm`` is the backend, ``interior_point`` the method: start reading there. It runs over one of two
Newton systems, chosen by the structure of the problem.

==================== ====================================== ===================================
part                 ``structured_system``                  ``sparse_system``
==================== ====================================== ===================================
problems             spectral boxes, low-rank rows          cones, rows stored as entries
cones                ``structured_cones`` (Nesterov–Todd)   ``sparse_cones`` (HKM)
Schur complement     ``transformed_rows``                   ``schur_complement``
problem as a program as given                               ``primal_dual_forms``, ``standard_form``
==================== ====================================== ===================================

Both use ``normal_equations`` (the factorised Schur complement) and ``iteration_cost`` (flop counts).
"""
