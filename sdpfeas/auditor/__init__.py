"""The auditor: independent second proofs of stored answers; it shares no code with the verifier."""
