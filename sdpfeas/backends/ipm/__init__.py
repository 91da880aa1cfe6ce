"""Primal–dual interior-point methods over PSD, SecondOrder, Nonneg, Free and SpectralBox blocks.

Structured, for boxes and low-rank rows: ``cone`` holds one pair of semidefinite slacks with its
Nesterov–Todd scaling, ``blocks`` what one block contributes to the Newton system, ``images`` the rows in
scaled coordinates, ``embedding`` the homogeneous self-dual method itself.

Sparse, for cones and rows stored as entries: ``pair`` holds a standard pair of cone programs, ``posed`` poses
a question as one of the two, ``hkm`` the iterate, ``second_order`` what it is in second-order cones,
``schur`` the Schur complement of sparse rows, ``schur_vectors`` what vectors add to it, ``self_dual``
the method, ``sparse_walk`` its steps, ``sparse_search`` when to offer what it finds, ``sparse_optimum``
objectives.

``backend`` chooses between them; ``cost`` says what a step takes, ``best`` keeps the best iterate.
"""
