"""Worst-case linear discriminant analysis: family, scikit-learn estimator, data sets.

The estimator needs scikit-learn: ``pip install 'sdpfeas[wlda]'``. It is loaded when it is asked for, so that
the family works without.
"""

from typing import TYPE_CHECKING

from sdpfeas.extras import extra, on_demand

if TYPE_CHECKING:
    from sdpfeas.wlda.estimator import WorstCaseLDA
else:
    _named = on_demand(__name__, {"sdpfeas.wlda.estimator": ["WorstCaseLDA"]})

    def __getattr__(name):
        """Import the estimator; who has no scikit-learn is told what brings it."""
        with extra("wlda", name):
            return _named(name)


__all__ = ["WorstCaseLDA"]
