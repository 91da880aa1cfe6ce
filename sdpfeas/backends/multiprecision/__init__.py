"""Small problems in multiprecision arithmetic, for interiors that are too thin for doubles.

``multiprecision_backend`` is the method (:class:`Multiprecision` for verdicts, :func:`multiprecision_bounds`
for optimal values), ``central_path`` its interior-point method, ``conic_pair`` the exact data.
"""
