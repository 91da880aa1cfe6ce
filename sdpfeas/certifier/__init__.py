"""The certifier: turns proved answers into exact evidence for ``sdpcheck.py``. It need not be trusted."""
