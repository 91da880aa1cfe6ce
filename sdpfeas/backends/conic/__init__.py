"""What Clarabel, SCS and cvxpy share: problems as cones, and answers mapped back."""
