"""Problems made from problems, with the way back for points and multipliers."""
