"""Shared test setup: one BLAS thread, Hypothesis profiles, the data folder."""

import os

# Before anything imports NumPy, which reads these once.
for _variable in (
    "OPENBLAS_NUM_THREADS",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "RAYON_NUM_THREADS",
):
    os.environ.setdefault(_variable, "1")

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# `ci` gives the same examples every time; `deep` explores and remembers what failed.
settings.register_profile(
    "ci",
    max_examples=50,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.register_profile(
    "deep",
    max_examples=1000,
    derandomize=False,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or "ci")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder with the test data (SDPFEAS_DATA); the test is skipped without it."""
    value = os.environ.get("SDPFEAS_DATA")
    if not value:
        pytest.skip("SDPFEAS_DATA is not set: no folder with the test data")
    folder = Path(value)
    if not folder.is_dir():
        pytest.skip(f"SDPFEAS_DATA is not a folder: {folder}")
    return folder
