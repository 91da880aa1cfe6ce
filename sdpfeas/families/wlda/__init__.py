"""WLDA as a parametric family: geometry of the data, formulations, bounds, degenerate cases."""
