"""Cards: TOML files that configure solvers and problems; finding them, parsing them, and typed options."""
