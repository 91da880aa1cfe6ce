"""Worst-case linear discriminant analysis for scikit-learn, and what the paper compares it with.

Needs scikit-learn: ``pip install 'sdpfeas[wlda]'``. The competitors live in modules of their own:
:mod:`~sdpfeas.wlda.zhang_sdp`, :mod:`~sdpfeas.wlda.zhang_socp`, :mod:`~sdpfeas.wlda.olda` and
:mod:`~sdpfeas.wlda.lmnn`.
"""

from sdpfeas.wlda.estimator import WorstCaseLDA

__all__ = ["WorstCaseLDA"]
