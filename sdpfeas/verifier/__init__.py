"""The verifier: the only code that grants a verdict.

``verify`` is a pure function of a problem with its original data and a claim. It ignores the status of a
solver, does not raise if a claim is wrong, and returns UNDECIDED if nothing is proved.
"""

from sdpfeas.verifier.verifier import decide, verify

__all__ = ["decide", "verify"]
