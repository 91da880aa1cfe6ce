"""A second pair of eyes on stored answers; it shares no code with the verifier."""
