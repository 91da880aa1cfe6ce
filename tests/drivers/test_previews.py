"""Previews, candidates extrapolated by the backend, save iterations, change no step, and are proved."""

import numpy as np
import pytest
from iterations import iterate_once

import sdpfeas as sf
from sdpfeas.backends.ipm.structured_system import StructuredSystem
from sdpfeas.drivers.bracket import BoundListener, Bracket


@pytest.fixture(scope="module")
def family() -> sf.families.WLDA:
    rng = np.random.default_rng(7)
    y = np.arange(80) % 4
    return sf.families.WLDA.from_data(rng.normal(size=(4, 9))[y] + rng.normal(size=(80, 9)), y)


def watch_of(family, tol: float = 1e-6, delta: float | None = None) -> BoundListener:
    return BoundListener(
        Bracket(family, tol, 0.0, *family.bracket), delta, family.program_point, family.program_multipliers
    )


def embedding_of(family) -> StructuredSystem:
    program = family.conic_program()
    return StructuredSystem(
        program.problem, tuple(-c for c in program.objective), program.scale, program.start
    )


def test_a_look_ahead_leaves_the_step_as_it_is(family) -> None:
    plain, curious = embedding_of(family), embedding_of(family)
    seen = []
    for _ in range(4):
        assert iterate_once(plain) == iterate_once(
            curious, lambda it, affine: bool(seen.append((affine, it.extrapolate())))
        )
    assert np.array_equal(plain.y, curious.y)
    assert all(np.array_equal(a, b) for a, b in zip(plain.point(), curious.point(), strict=True))
    assert all(0.0 < affine <= 1.0 for affine, _ in seen)


def test_a_look_ahead_is_nearer_to_the_end_than_the_next_step(family) -> None:
    known = sf.one_shot(family, tol=1e-9)
    embedding, ahead = embedding_of(family), []
    for _ in range(5):
        iterate_once(embedding, lambda it, _: bool(ahead.append(it.extrapolate())))
    point, y = ahead[-1]
    errors = [
        abs(family.root(family.normalise_multipliers(z)).delta / known.upper - 1.0)
        for z in map(family.program_multipliers, (y, embedding.multipliers()))
    ]
    assert errors[0] < 0.2 * errors[1]
    assert family.estimate_delta(family.checked_projection(family.program_point(point))) == pytest.approx(
        known.lower, rel=1e-4
    )


def test_glances_spare_steps_and_prove_the_same(family, monkeypatch) -> None:
    quick = sf.bisect(family, "auto", tol=1e-6)
    monkeypatch.setattr(BoundListener, "wants_preview", lambda self, gap: False)
    slow = sf.bisect(family, "auto", tol=1e-6)
    assert quick.converged
    assert quick.proven
    assert quick.history[0].iterations < slow.history[0].iterations
    assert max(quick.lower, slow.lower) <= min(quick.upper, slow.upper)
    above, below = sf.Claim(certificate=quick.certificate), sf.Claim(point=quick.point)
    assert sf.verify(family.at(quick.upper), above).verdict is sf.Verdict.INFEASIBLE
    assert sf.verify(family.at(quick.lower), below).verdict is sf.Verdict.FEASIBLE


def test_glances_are_for_one_program_without_equations(family) -> None:
    assert watch_of(family).wants_preview(1e-6)
    assert not watch_of(family).wants_preview(1e-3)
    assert not watch_of(family, delta=1.0).wants_preview(1e-12)
    problem = sf.families.LevelSet([sf.PSD(2)], [np.eye(2)[None]], [np.eye(2)[None]], [1.0], [1.0])
    assert not BoundListener(Bracket(problem, 1e-6, 0.0), None).wants_preview(1e-12)


@pytest.mark.parametrize("spoilt", ["nothing", "nan", "poor"])
def test_a_glance_at_nonsense_proves_nothing_and_costs_no_proof(family, spoilt, monkeypatch) -> None:
    monkeypatch.setattr(type(family), "prove_lower", lambda *_: pytest.fail("a proof was begun"))
    program = family.conic_program()
    point, y = program.start
    y = {"nothing": 0.0 * y, "nan": np.full_like(y, np.nan), "poor": y}[spoilt]
    watch = watch_of(family)
    assert not watch.previewed(point, y)
    # After one in vain the next has to promise more.
    assert not watch.wants_preview(5e-6)
