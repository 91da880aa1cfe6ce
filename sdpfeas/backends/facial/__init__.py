"""Facial reduction: search for certificates in exact arithmetic.

``facial_search`` is the algorithm (:func:`~sdpfeas.backends.facial.facial_search.search_stages`),
``exposing_vectors`` finds one step of it, and ``facial_backend`` solves what is left on the face.
"""
