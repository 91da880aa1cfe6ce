"""Primal–dual interior-point methods over PSD, SecondOrder, Nonneg, Free and SpectralBox blocks.

``spectral_ipm`` is the backend; it chooses one of two engines by the structure of the problem.

====================== ============================================ =========================================
part                   structured engine                            sparse engine
====================== ============================================ =========================================
problems               spectral boxes, low-rank rows                cones, rows stored as entries
main loop              ``structured_method.predictor_corrector``    ``sparse_method.predictor_corrector``
iterate and directions ``structured_embedding.StructuredEmbedding`` ``sparse_embedding.SparseEmbedding``
cones                  ``structured_cones`` (Nesterov–Todd)         ``sparse_cones`` (HKM)
Schur complement       ``transformed_rows``                         ``schur_complement``
problem as a program   as given                                     ``primal_dual_forms``, ``standard_form``
====================== ============================================ =========================================

Both use ``newton_system`` (the factorised normal equations) and ``iteration_cost`` (flop counts).
"""
