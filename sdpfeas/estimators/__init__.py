"""Estimators with scikit-learn's interface: linear projections that are optimal in the worst case.

Each comes with a proven bound on the best value that any projection can attain. They need scikit-learn
(``pip install 'sdpfeas[wlda]'``) and are loaded when they are first used.
"""

import lazy_loader

from sdpfeas.extras import extra

_import_name, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name):
    """Import an estimator; without scikit-learn the error names the extra to install."""
    with extra("wlda", name):
        return _import_name(name)
