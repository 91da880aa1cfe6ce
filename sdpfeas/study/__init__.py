"""Studies: solvers × problems × seeds, run in isolation, verified, stored, resumed and reported."""
