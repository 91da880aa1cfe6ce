"""The verifier: the only code that grants a verdict.

``verify`` is a pure function of a problem in its own units and a claim by anybody. It never believes a
status, never raises because a claim is wrong, and says UNDECIDED when nothing is proved.
"""

from sdpfeas.verifier.verifier import decide, verify

__all__ = ["decide", "verify"]
