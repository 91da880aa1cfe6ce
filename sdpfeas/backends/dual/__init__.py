"""The Frobenius-regularised dual: L-BFGS-B and semismooth Newton ascent.

``dual_lbfgs`` is the backend with its continuation in the weight of the margin, ``dual_function`` the
function that is maximised, ``ascent`` the two methods that maximise it.
"""
