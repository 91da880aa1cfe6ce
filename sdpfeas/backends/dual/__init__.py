"""The Frobenius-regularised dual (the method of the paper) and its semismooth Newton steps."""
