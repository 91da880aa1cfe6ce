"""For authors of backends: the conformance suite."""

from sdpfeas.testing.conformance import Finding, check_backend

__all__ = ["Finding", "check_backend"]
