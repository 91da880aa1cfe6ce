"""A structured primal–dual interior-point method over PSD, Nonneg, Free and SpectralBox blocks.

``cone`` holds one pair of semidefinite slacks with its Nesterov–Todd scaling, ``blocks`` what one block
contributes to the Newton system, ``images`` the rows in scaled coordinates, ``embedding`` the homogeneous
self-dual method itself, ``backend`` the way from a problem to it and back.
"""
