"""Linear projections that are best in the worst case, each with a proven bound of how good any can be.

They need scikit-learn: ``pip install 'sdpfeas[wlda]'``.
"""

from sdpfeas.projections.fair_pca import FairPCA
from sdpfeas.projections.max_min_distance import MaxMinDistance
from sdpfeas.wlda.estimator import WorstCaseLDA

__all__ = ["FairPCA", "MaxMinDistance", "WorstCaseLDA"]
