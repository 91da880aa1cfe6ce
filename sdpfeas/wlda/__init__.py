"""Worst-case linear discriminant analysis: family, scikit-learn estimator, the paper and its competitors.

The estimator needs scikit-learn: ``pip install 'sdpfeas[wlda]'``. It is loaded when it is asked for, so that
the family works without.
"""

from typing import TYPE_CHECKING, Any

from sdpfeas.extras import extra

if TYPE_CHECKING:
    from sdpfeas.wlda.estimator import WorstCaseLDA

__all__ = ["WorstCaseLDA"]


def __getattr__(name: str) -> Any:
    if name == "WorstCaseLDA":
        with extra("wlda", "WorstCaseLDA"):
            from sdpfeas.wlda.estimator import WorstCaseLDA

        return WorstCaseLDA
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
