"""Drivers: ``solve`` decides one problem; ``bisect``, ``one_shot`` and ``optimum`` bracket optimal values."""
