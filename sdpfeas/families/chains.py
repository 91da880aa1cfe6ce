"""Problems with a planted facial chain: weakly infeasible, feasible on a face only, strongly infeasible.

Coordinates are cut into groups ``P_1, ..., P_k`` and a rest. Row j of the chain is the identity on ``P_j``,
zero on all later coordinates, and anything on earlier ones; its bound is zero. So row 1 sends ``P_1`` to
zero, with its lines and columns, then row 2 does it to ``P_2``, and so on: the rest is the smallest face.

- ``face``: all other rows hold at a matrix that is definite on the rest, so the problem is feasible.
- ``weak``: row j of the chain, but for the first, has ``2 X[p, s]`` as its only earlier term, with p in
  ``P_{j-1}`` and s in the rest; another row asks for ``2 X[p, s] = 1`` with p in ``P_k``, which reads 0 = 1
  on the rest. With ``X[s, s]`` large enough all rows can be met but for the first, and that one nearly: no
  single certificate exists.
- ``strong``: another row is definite, with a negative bound.

Disguised, integer rows are combined and the matrices multiplied from both sides by integer matrices; rows of
floats are scaled, and they and the coordinates shuffled.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Literal

import numpy as np

from sdpfeas.families.family import Family
from sdpfeas.numerics.integers import identity, integral, kernel, solution
from sdpfeas.problem.lmi import LMI
from sdpfeas.problem.problem import FeasibilityProblem, Point
from sdpfeas.problem.sets import PSD, Free
from sdpfeas.verifier.chains.chain import Chain
from sdpfeas.verifier.results import Claim, Verdict

__all__ = ["PlantedChain", "PlantedChainOptions", "PlantedFaces"]

Generator = np.random.Generator

#: Largest entry of the integer matrices that hide a structure.
LARGEST = 3


@dataclass(frozen=True)
class PlantedChainOptions:
    """Parameters of a problem with a planted chain.

    Attributes
    ----------
    truth : {"weak", "face", "strong"}
        Weakly infeasible, feasible on a face only, or strongly infeasible.
    length : int
        Steps that lead to the smallest face.
    n : int
        Side of the matrix; more than ``length``.
    rows : int
        Number of rows, at least two more than ``length``; on the side of LMIs those that the matrices obey.
    numbers : {"integer", "float"}
        What the rows are made of.
    disguised : bool
        Hide the structure.
    side : {"primal", "lmi", "native"}
        Rows on a semidefinite matrix; or an affine matrix ``F0 + sum_i x_i F_i``, all that obey these rows,
        which has to be semidefinite (integer rows only), as a slack or as an LMI of the problem.
    seed : int
        Seed.
    """

    truth: Literal["weak", "face", "strong"] = "weak"
    length: int = 2
    n: int = 8
    rows: int = 8
    numbers: Literal["integer", "float"] = "integer"
    disguised: bool = False
    side: Literal["primal", "lmi", "native"] = "primal"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ValueError("length must be at least 1")
        if self.n < self.length + 2:
            raise ValueError("n must be at least two more than length")
        if self.rows < self.length + 2:
            raise ValueError("rows must be at least two more than length")
        if self.side != "primal" and self.numbers == "float":
            raise ValueError("the side of LMIs needs integer rows")
        rest = self.n - self.length
        if self.numbers == "float" and self.rows - self.length > rest * (rest + 1) // 2:
            raise ValueError("so many rows of floats contradict each other: they are rounded")


@dataclass(frozen=True)
class PlantedChain:
    """A problem of known truth with the chain, and the point if it is feasible, that show it."""

    problem: FeasibilityProblem
    feasible: bool
    chain: Chain
    point: Point | None = None

    @property
    def claim(self) -> Claim:
        """The evidence as a claim."""
        return Claim(point=self.point, chain=self.chain)

    @property
    def truth(self) -> Verdict:
        """The right verdict."""
        return Verdict.FEASIBLE if self.feasible else Verdict.INFEASIBLE


class PlantedFaces(Family):
    """Problems without interior, with a planted chain that leads to their smallest face."""

    name = "planted-faces"
    Options = PlantedChainOptions

    @classmethod
    def build(cls, options: PlantedChainOptions) -> FeasibilityProblem:
        """Return a problem whose truth is ``options.truth``."""
        return cls.plant(options).problem

    @staticmethod
    def plant(options: PlantedChainOptions) -> PlantedChain:
        """Return a problem with the evidence planted in it.

        Parameters
        ----------
        options : PlantedChainOptions
            What to plant.
        """
        rng = np.random.default_rng(options.seed)
        plant = _plain(rng, options)
        if options.disguised:
            plant = (_mixed if options.numbers == "integer" else _shuffled)(rng, plant)
        if options.side != "primal":
            return _as_lmi(rng, plant, native=options.side == "native")
        rows, right = plant.matrices.astype(np.float64), plant.bounds.astype(np.float64)
        if options.numbers == "float":
            # What is zero stays so.
            factors = rng.uniform(0.5, 2.0, options.rows)
            rows, right = rows * factors[:, None, None], right * factors
        problem = FeasibilityProblem([PSD(options.n)], [rows], right, right)
        point = (plant.base.astype(np.float64),) if plant.feasible else None
        return PlantedChain(problem, plant.feasible, Chain(tuple(plant.steps)), point)


@dataclass(frozen=True)
class _Plant:
    """Rows of integers, a matrix that obeys them, semidefinite if the problem is feasible, and the chain."""

    matrices: np.ndarray
    base: np.ndarray
    steps: np.ndarray
    feasible: bool

    @property
    def bounds(self) -> np.ndarray:
        return np.array([int((a * self.base).sum()) for a in self.matrices], dtype=object)


def _plain(rng: Generator, options: PlantedChainOptions) -> _Plant:
    """The chain is made of the first rows, in their order."""
    n, k, m = options.n, options.length, options.rows
    ends = [0]
    for j in range(k):
        # One coordinate at least is left for every later group, and for the rest.
        most = min(2 if options.numbers == "integer" else 1, n - 1 - (k - 1 - j) - ends[-1])
        ends.append(ends[-1] + int(rng.integers(1, most + 1)))
    groups = [np.arange(a, b) for a, b in pairwise(ends)]
    rest, spot = ends[-1], n - 1
    noise = _integers(rng, (m, n, n), 2)
    matrices = noise + noise.transpose(0, 2, 1)
    for j, group in enumerate(groups):
        matrices[j][ends[j] :, ends[j] :] = 0
        if options.truth == "weak":
            matrices[j] = 0
        matrices[j][group, group] = 1
        if options.truth == "weak" and j:
            _put(matrices[j], int(groups[j - 1][0]), spot, 1)
    base = np.zeros((n, n), dtype=object)
    root = _integers(rng, (n - rest, n - rest), 1)
    base[rest:, rest:] = root.dot(root.T) + identity(n - rest)
    # Signs of a certificate: A*y has to be negative.
    steps = -identity(m)[: k + (options.truth != "face")]
    if options.truth == "weak":
        base[spot, :] = base[:, spot] = 0
        _put(base, int(groups[-1][0]), spot, Fraction(1, 2))
        for before, group in pairwise(groups):
            base[group, group] = 2
            _put(base, int(before[0]), spot, -len(group))
        matrices[k] = 0
        _put(matrices[k], int(groups[-1][0]), spot, 1)
        matrices[k + 1 :, spot, spot] = 0
        steps[-1] = -steps[-1]
    elif options.truth == "strong":
        root = _integers(rng, (n, n), 1)
        matrices[k] = root.dot(root.T) + identity(n)
        # A diagonal entry that outweighs the others, with its sign turned.
        value = int((matrices[k] * base).sum())
        base[spot, spot] -= value // int(matrices[k][spot, spot]) + 1
    return _Plant(matrices, base, steps, options.truth == "face")


def _symmetric(entries: np.ndarray, n: int) -> np.ndarray:
    """Symmetric matrix of floats from the entries on and above its diagonal."""
    out = np.zeros((n, n))
    out[np.triu_indices(n)] = entries.astype(np.float64)
    return np.triu(out) + np.triu(out, 1).T


def _put(matrix: np.ndarray, i: int, j: int, value: object) -> None:
    matrix[i, j] = matrix[j, i] = value


def _integers(rng: Generator, shape: tuple[int, ...], size: int) -> np.ndarray:
    out = np.empty(shape, dtype=object)
    out[...] = rng.integers(-size, size + 1, shape).tolist()
    return out


def _mixed(rng: Generator, plant: _Plant) -> _Plant:
    """Integer combinations of the rows, in integer coordinates."""
    m, n = plant.matrices.shape[:2]
    mix, turn = _unimodular(rng, m), _unimodular(rng, n)
    moved = np.array([turn.T.dot(a).dot(turn) for a in plant.matrices], dtype=object)
    combined = mix.dot(moved.reshape(m, -1)).reshape(moved.shape)
    undo = np.stack([_exact(turn, e) for e in identity(n)], axis=1)
    # With rows T A the multipliers are those with T'y' = y.
    steps = np.stack([_exact(mix.T, y) for y in plant.steps])
    return replace(plant, matrices=combined, base=undo.dot(plant.base).dot(undo.T), steps=steps)


def _exact(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    whole, common = integral(Fraction(v) for v in right)
    found = solution(matrix, whole)
    assert found is not None
    return np.asarray(found / common)


def _unimodular(rng: Generator, n: int) -> np.ndarray:
    """Integer matrix of determinant one, up to its sign, with small entries."""
    out = identity(n)
    for _ in range(2 * n):
        i, j = rng.choice(n, size=2, replace=False)
        line = out[i] + int(rng.choice([-1, 1])) * out[j]
        if max(abs(int(v)) for v in line) <= LARGEST:
            out[i] = line
    return out[rng.permutation(n)]


def _shuffled(rng: Generator, plant: _Plant) -> _Plant:
    """Rows and coordinates in another order."""
    rows, places = (rng.permutation(size) for size in plant.matrices.shape[:2])
    moved = plant.matrices[rows][:, places[:, None], places]
    return replace(plant, matrices=moved, base=plant.base[np.ix_(places, places)], steps=plant.steps[:, rows])


def _as_lmi(rng: Generator, plant: _Plant, *, native: bool) -> PlantedChain:
    """All matrices that obey the rows, ``F0 + sum_i x_i F_i``, which have to be semidefinite."""
    n = plant.matrices.shape[1]
    i, j = np.triu_indices(n)
    twice = np.where(i == j, 1, 2).astype(object)
    moves = kernel(plant.matrices[:, i, j] * twice)
    x = -_integers(rng, (moves.shape[1],), 1)
    base = plant.base[i, j] - moves.dot(x)
    # The multiplier of the slack is A*y of the rows that made it.
    made = np.tensordot(plant.steps, plant.matrices, 1)
    if native:
        lmi = LMI(PSD(n), _symmetric(base, n), [np.array([_symmetric(move, n) for move in moves.T])])
        problem = FeasibilityProblem([Free(moves.shape[1])], [None], [], [], lmis=[lmi])
        point: Point | None = (x.astype(np.float64),) if plant.feasible else None
        chain = Chain(tuple(-step.reshape(-1) for step in made))
        return PlantedChain(problem, plant.feasible, chain, point)
    # Row (i, j) is X[i, j] less what x makes of it, times what makes its bound an integer.
    scale = np.array([Fraction(v).denominator for v in base], dtype=object)
    rows = np.zeros((i.size, n, n))
    rows[np.arange(i.size), i, j] += 0.5 * scale.astype(np.float64)
    rows[np.arange(i.size), j, i] += 0.5 * scale.astype(np.float64)
    free, right = (-moves * scale[:, None]).astype(np.float64), (base * scale).astype(np.float64)
    problem = FeasibilityProblem([PSD(n), Free(moves.shape[1])], [rows, free], right, right)
    chain = Chain(tuple(y * Fraction(1) / scale for y in made[:, i, j] * twice))
    point = (plant.base.astype(np.float64), x.astype(np.float64)) if plant.feasible else None
    return PlantedChain(problem, plant.feasible, chain, point)
