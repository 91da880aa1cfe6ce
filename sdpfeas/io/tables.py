"""Labelled samples from CSV, NPZ and Parquet files."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sdpfeas.errors import FileFormatError, OptionError
from sdpfeas.io.npz import UNREADABLE
from sdpfeas.numerics.linalg import FloatArray

__all__ = ["Samples", "read_samples"]


@dataclass(frozen=True)
class Samples:
    """Labelled samples.

    Attributes
    ----------
    X : ndarray
        Features, shape (samples, features).
    y : ndarray
        Labels.
    features : tuple of str
        Names of the features.
    """

    X: FloatArray
    y: np.ndarray
    features: tuple[str, ...]


def read_samples(path: Path, label: str | None = None) -> Samples:
    """Read labelled samples.

    Parameters
    ----------
    path : Path
        A ``.csv`` file (with or without a header), ``.npz`` with arrays X and y, or ``.parquet``.
    label : str, optional
        Column of the labels: its name, or its number from 1; the last one if not given.

    Raises
    ------
    FileFormatError
        If the file cannot be read as such; the message names row and column.
    OptionError
        If there is no such column.
    """
    if not path.is_file():
        raise FileFormatError(f"{path}: no such file")
    if path.suffix == ".npz":
        return _read_npz(path)
    if path.suffix == ".parquet":
        names, columns = _read_parquet(path)
    elif path.suffix in (".csv", ".txt", ".data"):
        names, columns = _read_csv(path)
    else:
        raise FileFormatError(f"{path}: samples are read from .csv, .npz or .parquet")
    if len(names) < 2:
        raise FileFormatError(f"{path}: one column of labels and at least one of features is needed")
    at = _label_column(names, label, path)
    y = np.array(columns[at])
    features = [k for k in range(len(names)) if k != at]
    X = np.empty((len(y), len(features)))
    for place, k in enumerate(features):
        for row, value in enumerate(columns[k]):
            try:
                X[row, place] = float(value)
            except (TypeError, ValueError):
                raise FileFormatError(
                    f"{path}: sample {row + 1}, column {names[k]}: not a number: {value!r}"
                ) from None
    return Samples(X, y, tuple(names[k] for k in features))


def _label_column(names: list[str], label: str | None, path: Path) -> int:
    if label is None:
        return len(names) - 1
    if label in names:
        return names.index(label)
    if label.isdigit() and 1 <= int(label) <= len(names):
        return int(label) - 1
    raise OptionError(f"{path}: there is no column {label!r}; columns: {', '.join(names[:12])}")


def _read_npz(path: Path) -> Samples:
    try:
        with np.load(path, allow_pickle=False) as archive:
            X, y = np.asarray(archive["X"], dtype=float), np.asarray(archive["y"])
    except UNREADABLE as error:
        raise FileFormatError(f"{path}: no arrays X and y could be read: {error}") from None
    if X.ndim != 2 or y.shape != X.shape[:1]:
        raise FileFormatError(
            f"{path}: X has shape {X.shape} and y {y.shape}; one label per row of X is needed"
        )
    return Samples(X, y, tuple(f"x{k + 1}" for k in range(X.shape[1])))


def _read_csv(path: Path) -> tuple[list[str], list[list[Any]]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = [row for row in csv.reader(file) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise FileFormatError(f"{path}: not a CSV file: {error}") from None
    if len(rows) < 2:
        raise FileFormatError(f"{path}: at least two samples are needed")
    width = len(rows[0])
    for number, row in enumerate(rows, 1):
        if len(row) != width:
            raise FileFormatError(f"{path}: row {number} has {len(row)} columns, the first has {width}")
    # A first row in which no entry is a number is a header.
    if any(_is_number(entry) for entry in rows[0]):
        names = [f"x{k + 1}" for k in range(width)]
    else:
        names, rows = [entry.strip() for entry in rows[0]], rows[1:]
    return names, [[row[k].strip() for row in rows] for k in range(width)]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _read_parquet(path: Path) -> tuple[list[str], list[list[Any]]]:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise OptionError("reading Parquet needs pyarrow: pip install 'sdpfeas[parquet]'") from None
    try:
        table = parquet.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise FileFormatError(f"{path}: not a Parquet file: {error}") from None
    return list(table.column_names), [column.to_pylist() for column in table.columns]
