"""The search for facial chains, in rising cost.

``table`` holds what multipliers make of the rows on a face, exactly and in floating point; ``sieve`` looks at
single rows, ``lattice`` at short combinations of them, ``auxiliary`` asks a cone solver, and ``rounding``
makes exact multipliers of its answer. ``search`` goes from face to face, ``backend`` answers what is left.
"""
