"""The auditor: independent second proofs of stored answers; it shares no proof code with the verifier."""
