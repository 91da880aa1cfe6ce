"""The WLDA problems of the benchmarks by name: data sets of the paper, and Gaussian classes of any size."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["BY_CLASSES", "BY_DIMENSION", "PROFILED", "SHORT", "WLDA", "Size", "load", "size_of", "synthetic"]


@dataclass(frozen=True)
class Size:
    """Classes, dimension and samples of a problem.

    Attributes
    ----------
    classes, dimension, samples : int
        The three numbers.
    components : int, optional
        Final dimension; None for one less than the classes, or all dimensions.
    """

    classes: int
    dimension: int
    samples: int
    components: int | None = None


#: How the data sets are prepared, and what comes out.
DATA: dict[str, tuple[dict[str, Any], Size]] = {
    "sonar": ({}, Size(2, 60, 208)),
    "yale": ({"pca": 50}, Size(15, 50, 165)),
    "alphadigits": ({"classes": 10, "pca": 80}, Size(10, 80, 390)),
    "orl": ({"pca": 100}, Size(40, 100, 400)),
}

SEED = 2015


def synthetic(classes: int, dimension: int, components: int | None = None) -> str:
    """Name of the synthetic problem of a size.

    Parameters
    ----------
    classes, dimension : int
        The size.
    components : int, optional
        Final dimension. Without it there is nothing to choose where classes outnumber dimensions.
    """
    return f"synthetic-{classes}-{dimension}" + ("" if components is None else f"-r{components}")


#: The seven problems that decide, and those of the short set.
WLDA = (*DATA, synthetic(20, 100), synthetic(10, 200), synthetic(10, 400))
SHORT = ("sonar", "yale", "alphadigits", synthetic(10, 200))

#: The two series of the scaling benchmark: ten classes in more and more dimensions, and the other way round.
BY_DIMENSION = tuple(synthetic(10, d) for d in (25, 50, 100, 200, 400, 1000, 2000))
BY_CLASSES = tuple(synthetic(c, 100) for c in (3, 6, 10, 20, 40, 60))

#: Where it is measured what the time goes into.
PROFILED = tuple(synthetic(10, d) for d in (100, 200, 400, 1000))


def size_of(name: str) -> Size:
    """Size of a problem, known without its data.

    Parameters
    ----------
    name : str
        Its name.

    Raises
    ------
    ValueError
        If there is none of that name.
    """
    if name in DATA:
        return DATA[name][1]
    match = re.fullmatch(r"synthetic-(\d+)-(\d+)(?:-r(\d+))?", name)
    if match is None:
        raise ValueError(f"no problem is called {name!r}; known: {', '.join(DATA)}, synthetic-C-D[-rR]")
    classes, dimension = int(match[1]), int(match[2])
    components = None if match[3] is None else int(match[3])
    return Size(classes, dimension, max(2 * dimension, 4 * classes), components)


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Samples and labels of a problem.

    Parameters
    ----------
    name : str
        Its name.
    """
    size = size_of(name)
    if name in DATA:
        from sdpfeas.datasets import prepared

        return prepared(name, **DATA[name][0])
    rng = np.random.default_rng([SEED, size.classes, size.dimension])
    y = np.arange(size.samples) % size.classes
    means = rng.standard_normal((size.classes, size.dimension))
    scales = np.exp(rng.uniform(-1.0, 1.0, size.dimension))
    X = (means[y] + rng.standard_normal((size.samples, size.dimension))) * scales
    return X, y
