"""Estimators with scikit-learn's interface: linear projections that are optimal in the worst case.

Each comes with a proven bound on the best value that any projection can attain. They need scikit-learn
(``pip install 'sdpfeas[wlda]'``) and are loaded when they are first used.
"""

from typing import TYPE_CHECKING

from sdpfeas.extras import extra, on_demand

if TYPE_CHECKING:
    from sdpfeas.estimators.fair_pca import FairPCA
    from sdpfeas.estimators.max_min_distance import MaxMinDistance
    from sdpfeas.estimators.worst_case_lda import WorstCaseLDA
else:
    _named = on_demand(
        __name__,
        {
            "sdpfeas.estimators.fair_pca": ["FairPCA"],
            "sdpfeas.estimators.max_min_distance": ["MaxMinDistance"],
            "sdpfeas.estimators.worst_case_lda": ["WorstCaseLDA"],
        },
    )

    def __getattr__(name):
        """Import an estimator; without scikit-learn the error names the extra to install."""
        with extra("wlda", name):
            return _named(name)


__all__ = ["FairPCA", "MaxMinDistance", "WorstCaseLDA"]
