"""Cards (TOML files), their typed options, and how solvers, problems and families are found and loaded."""
