"""One experiment: a method on a split, from the samples to the test error."""

from __future__ import annotations

import io
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sdpfeas.wlda.paper.methods import find_method
from sdpfeas.wlda.paper.protocol import Sample, Task

__all__ = ["NEIGHBOURS", "Experiment", "Score", "answer", "run_experiment"]

#: The paper classifies by so many nearest neighbours.
NEIGHBOURS = 5


@dataclass(frozen=True)
class Experiment:
    """A method on a split.

    Attributes
    ----------
    method : str
        Name of the method.
    task : Task
        The data.
    split : int
        Number of the split.
    picture : bool
        Whether to hand back the projected test samples.
    """

    method: str
    task: Task
    split: int
    picture: bool = False


@dataclass(frozen=True)
class Score:
    """What came of an experiment.

    Attributes
    ----------
    error : float
        Share of test samples that were classified wrongly.
    time : float
        Seconds the method took to find its projection.
    bracket : tuple of float, optional
        Bounds of ``delta*``.
    proven, finished : bool
        Whether they are proved; whether the method got as far as it wanted to.
    ratio : float, optional
        Worst-case ratio that the projection attains.
    remark : str
        What else the method said.
    picture : bytes, optional
        Projected test samples ``Z`` and labels ``y``, as an ``.npz`` file.
    """

    error: float
    time: float
    bracket: tuple[float, float] | None
    proven: bool
    finished: bool
    ratio: float | None
    remark: str
    picture: bytes | None = None

    @property
    def infinite(self) -> bool:
        """Whether ``delta*`` is infinite: the class scatters leave room to separate all means."""
        return self.bracket is not None and math.isinf(self.bracket[0])


def run_experiment(experiment: Experiment, sample: Sample) -> Score:
    """Fit the method, classify the test samples, and sum up.

    Parameters
    ----------
    experiment : Experiment
        What to do.
    sample : Sample
        The split it is about; drawn beforehand, since drawing is not what is measured.
    """
    from sklearn.neighbors import KNeighborsClassifier

    method = find_method(experiment.method)
    begin = time.perf_counter()
    fitted = method.fit(sample.X, sample.y, sample.components)
    spent = time.perf_counter() - begin
    Z = fitted.project(sample.X_test)
    classifier = KNeighborsClassifier(min(NEIGHBOURS, len(sample.y))).fit(fitted.project(sample.X), sample.y)
    wrong = classifier.predict(Z) != sample.y_test
    return Score(
        error=float(np.mean(wrong)),
        time=spent,
        bracket=None if fitted.bracket is None else (float(fitted.bracket[0]), float(fitted.bracket[1])),
        proven=fitted.proven,
        finished=fitted.finished,
        ratio=None if fitted.ratio is None else float(fitted.ratio),
        remark=fitted.remark,
        picture=_packed(Z, sample.y_test) if experiment.picture else None,
    )


#: Methods that have been rehearsed in this process.
_rehearsed: set[str] = set()


def answer(experiment: Experiment, start: Callable[..., None]) -> dict[str, Any]:
    """Run an experiment, the method rehearsed: the target of the trial that is a cell of the paper.

    Parameters
    ----------
    experiment : Experiment
        What to do.
    start : callable
        Starts the clock.
    """
    sample = experiment.task.sample(experiment.split)
    if experiment.method not in _rehearsed:
        _rehearse(experiment.method)
        _rehearsed.add(experiment.method)
    start()
    return asdict(run_experiment(experiment, sample))


def _rehearse(method: str) -> None:
    """Run a method on next to nothing: what it imports on the way is not what is measured."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 8)
    X = rng.standard_normal((24, 3)) + 4.0 * np.eye(3)[y]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run_experiment(Experiment(method, Task("iris"), 0), Sample(X, y, X, y, 2))


def _packed(Z: np.ndarray, y: np.ndarray) -> bytes:
    with io.BytesIO() as file:
        np.savez_compressed(file, Z=Z, y=np.unique(y, return_inverse=True)[1])
        return file.getvalue()
