"""The drivers: ask a backend one question, or bracket the optimal value of a family by asking many."""
