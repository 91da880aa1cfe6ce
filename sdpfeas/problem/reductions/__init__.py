"""Reductions: each maps a problem to another one, and points and multipliers back."""
