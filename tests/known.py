"""delta* of WLDA on the full data, r = c - 1: two independent methods agree to 1e-8."""

#: scikit-learn's bundled data: name, whether standardised, delta*.
BUNDLED = [
    ("iris", False, 9.6254203),
    ("wine", False, 16.1560431),
    ("wine", True, 16.4709647),
    ("breast_cancer", True, 13.1165479),
]

#: Data in files.
FILES = [
    ("sonar", False, 6.5862564),
    ("ionosphere", False, 4.0674007),
    ("heart", False, 0.3772826),
    ("balance", False, 0.5571432),
    ("waveform", False, 2.4497790),
]


def contains(lower, upper, delta):
    """Whether a bracket contains delta*, as far as its printed digits go."""
    return lower <= delta + 6e-8 and upper >= delta - 6e-8
