"""What solvers, problems and families have in common: cards in TOML, options, and how a name is found."""
