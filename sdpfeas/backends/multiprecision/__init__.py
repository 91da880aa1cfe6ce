"""Small problems in multiprecision arithmetic, for interiors that are too thin for doubles.

``multiprecision_backend`` is the method (``Multiprecision.solve`` for verdicts, ``rational_bounds`` for
optimal values). ``central_path`` is its interior-point method, ``conic_pair`` holds the exact data.
"""
