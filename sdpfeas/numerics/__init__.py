"""Linear algebra, exact arithmetic and proofs in floating point; independent of problems."""
