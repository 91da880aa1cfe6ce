"""Trials: functions run in worker processes under enforced limits of time and memory.

A study cell, an audit, a benchmark and an isolated solve are trials. :mod:`~sdpfeas.trials.trial` describes
one, :mod:`~sdpfeas.trials.workers` runs it. A trial names its function, which is imported in the worker.
"""
