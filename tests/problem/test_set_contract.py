"""The contract of a set: every answer agrees with the others, and a new set is told what it lacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

import sdpfeas as sf
from sdpfeas.families.planted import feasible, infeasible
from sdpfeas.numerics.exact_arithmetic import number, to_rationals
from sdpfeas.problem.sets import KINDS, BlockSet, set_from_spec
from sdpfeas.problem.sets.base import VectorSet

#: Sets that keep the contract; a new one belongs here.
SETS = [
    sf.PSD(1),
    sf.PSD(4),
    sf.Nonneg(1),
    sf.Nonneg(4),
    sf.Free(3),
    sf.SpectralBox(4),
    sf.SpectralBox(3, -1.0, 2.0),
    sf.SpectralBox(4, trace=1.5),
    sf.SpectralBox(3, -0.5, 1.25, trace=1.0),
    sf.SecondOrder(1),
    sf.SecondOrder(2),
    sf.SecondOrder(5),
    sf.HermitianPSD(1),
    sf.HermitianPSD(3),
]


def array(block: BlockSet, rng: np.random.Generator) -> np.ndarray:
    return block.symmetrize(2.0 * rng.normal(size=block.shape))


def is_near(a: object, b: object, size: float = 1.0) -> bool:
    return bool(np.allclose(a, b, rtol=1e-12, atol=1e-12 * (1.0 + size)))


# ---------------------------------------------------------------- the checks, each named by what is missing


def facts(block: BlockSet, rng: np.random.Generator) -> None:
    """Exactly one of bounded, cone and free; slacks say the same as the bounds."""
    assert [block.bounded, block.cone, block.free].count(True) == 1
    assert len(block.slacks) == 2 * block.bounded + block.cone
    assert block.interior_point().shape == block.shape
    assert block.bounded == np.isfinite(block.nuclear_radius) == np.isfinite(block.radius)


def spectra(block: BlockSet, rng: np.random.Generator) -> None:
    """Frames are orthonormal: an array is made of its spectrum, and lengths and products agree."""
    x, y = array(block, rng), array(block, rng)
    lam, frame = block.decompose(x)
    assert lam.shape == (block.degree,)
    assert is_near(block.compose(frame, lam), x, 10.0)
    assert is_near(np.linalg.norm(lam), np.linalg.norm(x))
    assert is_near(lam @ block.coefficients(frame, y), np.vdot(x, y), 10.0)
    assert is_near(np.sort(block.spectrum(x)), np.sort(lam))
    assert is_near(block.trace_of(x), lam.sum(), 10.0)
    assert is_near(block.spectrum(block.identity()), np.ones(block.degree))
    drawn = block.compose(block.random_frame(rng), lam)
    assert is_near(np.sort(block.spectrum(drawn)), np.sort(lam), 10.0)


def membership(block: BlockSet, x: np.ndarray) -> float:
    """How far a point is from meeting its slacks and its trace."""
    off = [0.0 if block.trace is None else abs(block.trace_of(x) - block.trace)]
    for sign, shift in block.slacks:
        off.append(-float(np.min(block.spectrum(sign * x + shift * block.identity()))))
    return max(off)


def projection(block: BlockSet, rng: np.random.Generator) -> None:
    """The projection is a member, stays where it is, and no member lies in front of it."""
    x = array(block, rng)
    p = block.project(x)
    assert membership(block, p) <= 1e-12
    assert is_near(block.project(p), p)
    assert is_near(block.distance(x), np.linalg.norm(x - p))
    for _ in range(5):
        z = block.project(array(block, rng))
        assert np.vdot(x - p, z - p) <= 1e-11


def support(block: BlockSet, rng: np.random.Generator) -> None:
    """No member exceeds the support, and its maximiser attains it."""
    g = array(block, rng)
    if not block.bounded:
        g = g - block.project(g)  # the rest is in the polar, by Moreau
        lam, frame = block.decompose(g)
        g = block.compose(frame, np.minimum(lam, 0.0) - (0.0 if block.free else 1e-9))
    value = block.support(g)
    lam, frame = block.decompose(g)
    top = block.compose(frame, block.maximiser_spectrum(lam))
    assert membership(block, top) <= 1e-12
    assert is_near(np.vdot(g, top), value, 10.0)
    for _ in range(5):
        assert np.vdot(g, block.project(array(block, rng))) <= value + 1e-10


def depth(block: BlockSet, rng: np.random.Generator) -> None:
    """The middle is deepest; depth is what the slacks leave; multiples and shrunk sets agree."""
    middle = block.interior_point()
    assert membership(block, middle) <= 1e-12
    assert block.contains_interior(middle)
    x = array(block, rng)
    left = [np.min(block.spectrum(sign * x + shift * block.identity())) for sign, shift in block.slacks]
    assert is_near(block.depth(x), min(left, default=np.inf))
    twice, smaller = block.scaled(2.0), block.shrunk(0.5)
    assert is_near(twice.project(2.0 * x), 2.0 * block.project(x))
    assert membership(block, smaller.project(x)) <= 1e-12
    assert is_near(smaller.middle, block.middle)


def proofs(block: BlockSet, rng: np.random.Generator) -> None:
    """Proven bounds hold at computed points, and are of use inside."""
    for x in (array(block, rng), block.project(array(block, rng)), block.interior_point()):
        assert block.distance_upper(x) >= block.distance(x) - 1e-12
    inside = block.interior_point()
    assert block.snapped_distance(inside, 1e-9) <= 1e-12
    room = block.interior_radius(inside, 0.5)
    assert room is not None
    assert np.all(np.asarray(room) > 0.0)
    step = array(block, rng)
    step *= (np.asarray(room) if block.entrywise else float(np.max(room))) / np.linalg.norm(step)
    assert block.depth(inside + 0.999 * step) >= 0.0
    assert block.trace_missed(inside) <= 1e-12
    g, exact = array(block, rng), np.zeros(block.shape)
    if block.bounded:
        bound, _ = block.support_upper(g, exact, 0.0, None)
        assert block.support(g) <= bound <= block.support(g) + 1e-10
        assert block.support_upper(g, exact + 0.1, 0.0, None)[0] > bound
    else:
        assert block.support_upper(exact, exact, 0.0, None)[0] == 0.0
        assert block.support_upper(block.identity(), exact, 0.0, None)[0] == np.inf
        assert block.free or block.support_upper(-block.identity(), exact, 0.0, None)[0] == 0.0
        assert block.support_upper(-block.identity(), exact + 2.0, 0.0, None)[0] == np.inf


def exactness(block: BlockSet, rng: np.random.Generator) -> None:
    """In rationals, too, members are members, the rest is not, and floating-point proofs are borne out."""
    exact = to_rationals
    middle = exact(block.interior_point())
    if block.trace is not None:  # rounded, so that the last entry has to make up for it
        middle[-1, -1] += number(block.trace) - sum(np.diagonal(middle))
    assert block.contains_exact(middle, number)
    for x in (array(block, rng), block.project(array(block, rng))):
        if block.contains_exact(exact(x), number):
            assert membership(block, x) <= 1e-12
        elif block.trace is None:
            assert not block.depth(x) > 1e-12
    far = exact(block.interior_point() - 9.0 * block.identity())
    assert block.contains_exact(far, number) == block.free
    if block.bounded:
        return
    zero = np.zeros(block.shape)
    for g in (array(block, rng), -block.project(array(block, rng)), zero, block.identity()):
        if block.support_upper(g, zero, 0.0, None)[0] == 0.0:
            assert block.polar_exact(exact(g))


def files(block: BlockSet, rng: np.random.Generator) -> None:
    """A set is found by its name; whatever stands in files comes back."""
    assert block.kind in KINDS, f"{block.kind} is not listed in sdpfeas.problem.sets.KINDS"
    assert set_from_spec(block.spec()) == block


def planted(block: BlockSet, rng: np.random.Generator) -> None:
    """Planted members and certificates are verified, with a proof."""
    for item in (feasible(rng, [block], bounds="inequality"), infeasible(rng, [block], bounds="inequality")):
        assert sf.verify(item.problem, item.claim, rigorous=True).verdict is item.truth


CHECKS: tuple[Callable[[BlockSet, np.random.Generator], None], ...] = (
    facts,
    spectra,
    projection,
    support,
    depth,
    proofs,
    exactness,
    files,
    planted,
)


def missing(kind: type[BlockSet], *parameters: object) -> list[str]:
    """What a set does not answer yet, or answers wrongly."""
    if kind.__abstractmethods__:
        return sorted(kind.__abstractmethods__)
    block, out = kind(*parameters), []  # type: ignore[arg-type]
    for check in CHECKS:
        try:
            check(block, np.random.default_rng(0))
        except Exception as error:  # noqa: BLE001 - whatever goes wrong is missing
            out.append(f"{check.__name__}: {check.__doc__} ({error})")
    return out


# ---------------------------------------------------------------- the sets there are, and some that are not


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("block", SETS, ids=repr)
def test_every_set_keeps_the_contract(block, check):
    for seed in range(5):
        check(block, np.random.default_rng(seed))


def test_every_kind_is_held_to_the_contract():
    assert {type(block) for block in SETS} == set(KINDS.values())


class Unfinished(VectorSet):
    """Numbers from 0 to 1, with nothing proved about them."""

    kind = "Unfinished"
    lower, upper = 0.0, 1.0


@dataclass(frozen=True)
class Careless(sf.Nonneg):
    """Has an interior radius that is too large, has a support that is too small, and is in no list."""

    kind = "Careless"

    def interior_radius(self, x, share):
        return 2.0 * x

    def support_upper(self, g, error, slip, moves):
        return 0.0, 0.0


def test_a_new_set_is_told_which_answers_are_missing():
    assert missing(Unfinished) == ["distance_upper", "interior_radius", "support_upper"]


def test_a_new_set_is_told_which_answers_are_wrong():
    said = [line.split(":")[0] for line in missing(Careless, 3)]
    assert said == ["proofs", "exactness", "files"]
    assert missing(sf.Nonneg, 3) == []
