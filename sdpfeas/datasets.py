"""Labelled data sets by name: from scikit-learn, from files of the WLDA paper, or downloaded.

Files are read from the folder ``wlda`` inside the folder that the environment variable ``SDPFEAS_DATA``
names, under the names with which they are published. The library contains no data. :func:`load_dataset` loads
a data set, :func:`prepared` also selects classes and samples and reduces the features.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sdpfeas.errors import SdpfeasError
from sdpfeas.extras import extra
from sdpfeas.files import read_file
from sdpfeas.io.matlab import read_matlab
from sdpfeas.npz import UNREADABLE
from sdpfeas.numerics.linalg import FloatArray

#: The environment variable that names the folder with data files.
FOLDER = "SDPFEAS_DATA"

#: Memory estimate of a text file: bytes of the parsed table per byte of the file.
BYTES_PER_TEXT_BYTE = 32


class DataError(SdpfeasError, ValueError):
    """A data set is unknown, was not found, or is damaged."""


@dataclass(frozen=True)
class Dataset:
    """Labelled samples and their origin."""

    X: FloatArray
    y: np.ndarray
    name: str
    source: str


@dataclass(frozen=True)
class _Published:
    """A data set in one file: its reader, where it is published, and how to fetch it otherwise."""

    file: str
    read: Callable[[Path], tuple[FloatArray, np.ndarray]]
    home: str
    fetch: Callable[[], tuple[FloatArray, np.ndarray]] | None = None


def load_dataset(name: str) -> Dataset:
    """Load a data set.

    Raises ``DataError`` if there is no such data set, or it was not found and cannot be fetched, and
    ``MissingExtraError`` if it needs scikit-learn, which is not installed.
    """
    if name in _BUNDLED:
        X, y = _sklearn_datasets(name)[_BUNDLED[name]](return_X_y=True)
        return Dataset(np.asarray(X, dtype=np.float64), np.asarray(y), name, "scikit-learn")
    if name not in _FILES:
        raise DataError(f"no data set named {name!r}; known: {', '.join(dataset_names())}")
    entry = _FILES[name]
    folder = os.environ.get(FOLDER)
    path = None if not folder else Path(folder) / "wlda" / entry.file
    if path is not None and path.is_file():
        try:
            X, y = entry.read(path)
        except UNREADABLE as error:
            raise DataError(f"{path}: not the expected file ({error})") from error
        return Dataset(X, y, name, str(path))
    place = f"put {entry.file} (from {entry.home}) into the folder wlda of the folder that {FOLDER} names"
    if entry.fetch is None:
        raise DataError(f"data set {name!r} was not found: {place}")
    try:
        X, y = entry.fetch()
    except SdpfeasError:
        raise
    except Exception as error:  # a download may raise anything
        raise DataError(
            f"data set {name!r} was not found and could not be fetched ({error}): {place}"
        ) from error
    return Dataset(X, y, name, "fetched by scikit-learn")


def dataset_names() -> list[str]:
    """Return the names of all known data sets, whether or not their files are present."""
    return sorted([*_BUNDLED, *_FILES])


def prepared(
    name: str,
    *,
    classes: int | None = None,
    first_class: int = 0,
    train: float | None = None,
    seed: int = 0,
    standardize: bool = False,
    pca: int | None = None,
) -> tuple[FloatArray, np.ndarray]:
    """Load a data set, select classes and samples, and reduce its features.

    ``classes`` classes are used, in the order of their labels, from ``first_class`` on. ``train`` is the
    share of the samples of every class that is drawn at random. ``standardize`` scales every feature to
    variance one. ``pca`` is the number of principal components of the selected samples to keep.
    """
    X, y = choose_classes(load_dataset(name), first_class, classes)
    if train is not None:
        keep = _stratified(y, train, seed)
        X, y = X[keep], y[keep]
    if standardize:
        size = X.std(axis=0)
        X = (X - X.mean(axis=0)) / np.where(size > 0.0, size, 1.0)
    if pca is not None:
        centre, axes = leading_axes(X, pca)
        X = (X - centre) @ axes
    return X, y


def choose_classes(
    data: Dataset, first_class: int = 0, classes: int | None = None
) -> tuple[FloatArray, np.ndarray]:
    """Return the samples of ``classes`` classes, in the order of their labels, from ``first_class`` on.

    Raises ``DataError`` if there are fewer, or if fewer than two are requested.
    """
    labels = np.unique(data.y)
    last = labels.size if classes is None else first_class + classes
    if first_class < 0 or last > labels.size or last - first_class < 2:
        raise DataError(
            f"data set {data.name!r} has {labels.size} classes; "
            f"cannot use classes {first_class} to {last - 1}"
        )
    chosen = np.isin(data.y, labels[first_class:last])
    return data.X[chosen], data.y[chosen]


def leading_axes(X: FloatArray, count: int) -> tuple[FloatArray, FloatArray]:
    """Return the mean and at most ``count`` leading principal axes of samples, one axis per column."""
    if count < 1:
        raise DataError(f"pca must be at least 1, got {count!r}")
    centre = X.mean(axis=0)
    _, singular, right = np.linalg.svd(X - centre, full_matrices=False)
    there = int(np.sum(singular > 1e-12 * singular[0]))
    return centre, np.asarray(right[: min(count, there)].T)


def _stratified(y: np.ndarray, share: float, seed: int) -> np.ndarray:
    if not 0.0 < share <= 1.0:
        raise DataError(f"train must lie between 0 and 1, got {share!r}")
    rng = np.random.default_rng(seed)
    kept = []
    for label in np.unique(y):
        index = np.flatnonzero(y == label)
        kept.append(rng.permutation(index)[: max(1, round(share * index.size))])
    return np.sort(np.concatenate(kept))


# --- Readers of published files


def _table(path: Path, *, separator: str | None, label: int) -> tuple[FloatArray, np.ndarray]:
    text = read_file(path, BYTES_PER_TEXT_BYTE).decode("ascii")
    rows = [line.split(separator) for line in text.splitlines() if line.strip()]
    width = len(rows[0])
    if any(len(row) != width for row in rows):
        raise ValueError("lines of different length")
    y = np.array([row[label].strip() for row in rows])
    features = [[value for k, value in enumerate(row) if k != label % width] for row in rows]
    return np.array(features, dtype=np.float64), y


def _faces(path: Path) -> tuple[FloatArray, np.ndarray]:
    content = read_matlab(path)
    return np.asarray(content["fea"], dtype=np.float64), np.asarray(content["gnd"]).ravel()


def _alphadigits(path: Path) -> tuple[FloatArray, np.ndarray]:
    cells = read_matlab(path)["dat"]
    images = [cells[i, j].ravel() for i in range(cells.shape[0]) for j in range(cells.shape[1])]
    return np.array(images, dtype=np.float64), np.repeat(np.arange(cells.shape[0]), cells.shape[1])


def _umist(path: Path) -> tuple[FloatArray, np.ndarray]:
    stacks = read_matlab(path)["facedat"].ravel()  # one stack of photographs per person
    images = [stack[:, :, k].ravel() for stack in stacks for k in range(stack.shape[2])]
    people = np.repeat(np.arange(stacks.size), [stack.shape[2] for stack in stacks])
    return np.array(images, dtype=np.float64), people


def _openml(name: str, version: int) -> Callable[[], tuple[FloatArray, np.ndarray]]:
    def fetch() -> tuple[FloatArray, np.ndarray]:
        bunch = _sklearn_datasets(name)["fetch_openml"](
            name, version=version, as_frame=False, parser="liac-arff"
        )
        return np.asarray(bunch.data, dtype=np.float64), np.asarray(bunch.target)

    return fetch


def _olivetti() -> tuple[FloatArray, np.ndarray]:
    # The same photographs at twice the resolution; averaged over 2 x 2 pixels.
    X, y = _sklearn_datasets("orl")["fetch_olivetti_faces"](return_X_y=True)
    small = np.asarray(X, dtype=np.float64).reshape(-1, 32, 2, 32, 2).mean(axis=(2, 4))
    return np.round(255.0 * small.reshape(len(small), -1)), np.asarray(y)


def _sklearn_datasets(name: str) -> Any:
    with extra("wlda", f"data set {name!r}"):
        from sklearn import datasets
    return vars(datasets)


_BUNDLED = {
    "iris": "load_iris",
    "wine": "load_wine",
    "breast_cancer": "load_breast_cancer",
    "digits": "load_digits",
}

_UCI = "https://archive.ics.uci.edu"
_CAI = "http://www.cad.zju.edu.cn/home/dengcai"
_ROWEIS = "https://cs.nyu.edu/~roweis/data.html"

# Where a line has its label, and what separates its entries.
_COMMA_LAST = partial(_table, separator=",", label=-1)
_COMMA_FIRST = partial(_table, separator=",", label=0)
_BLANK_LAST = partial(_table, separator=None, label=-1)
_CONVERTED = "as grey images, one per row of fea, labels in gnd; see docs/paper.md"

_FILES = {
    "sonar": _Published("sonar.data", _COMMA_LAST, _UCI, _openml("sonar", 1)),
    "ionosphere": _Published("ionosphere.data", _COMMA_LAST, _UCI, _openml("ionosphere", 1)),
    "balance": _Published("balance-scale.data", _COMMA_FIRST, _UCI, _openml("balance-scale", 1)),
    # -9 marks a missing value; it is kept as it is, since the paper does not say otherwise.
    "heart": _Published("reprocessed.hungarian.data", _BLANK_LAST, f"{_UCI}, Heart Disease"),
    "waveform": _Published("waveform-+noise.data", _COMMA_LAST, _UCI, _openml("waveform-5000", 1)),
    "orl": _Published("ORL_32x32.mat", _faces, _CAI, _olivetti),
    "yale": _Published("Yale_32x32.mat", _faces, _CAI),
    "alphadigits": _Published("binaryalphadigs.mat", _alphadigits, _ROWEIS),
    "umist": _Published("umist_cropped.mat", _umist, _ROWEIS),
    "pie": _Published("Pose29_64x64.mat", _faces, _CAI),
    "coil20": _Published("COIL20.mat", _faces, _CAI),
    "coil30": _Published("COIL30_64x64.mat", _faces, f"COIL-100 {_CONVERTED}"),
    "aloi": _Published("ALOI_58x77.mat", _faces, f"ALOI {_CONVERTED}"),
}
