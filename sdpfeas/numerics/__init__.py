"""Linear algebra, and proofs in floating-point arithmetic; knows nothing of problems."""
