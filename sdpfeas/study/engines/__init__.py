"""Where cells run: here, on a Dask cluster, or on any joblib backend. Everywhere the same limits hold."""

from sdpfeas.study.engines.base import Engine, Place
from sdpfeas.study.engines.dask import DaskEngine
from sdpfeas.study.engines.joblib import JoblibEngine
from sdpfeas.study.engines.local import LocalEngine

__all__ = ["DaskEngine", "Engine", "JoblibEngine", "LocalEngine", "Place"]
