"""Whatever a backend hands in, it costs one cell: never the study, its file or its report."""

from __future__ import annotations

import json
import pickle
import random
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from study_tools import trace_problem, write_backend

import sdpfeas as sf
from sdpfeas.claims import plain_info, read_claim
from sdpfeas.study.cell_verification import judge
from sdpfeas.study.cells import Settings
from sdpfeas.study.comparison import make_plan
from sdpfeas.study.engines import LocalEngine
from sdpfeas.study.report import render_html, render_markdown
from sdpfeas.study.runner import Runner
from sdpfeas.study.store import Store, write_table
from sdpfeas.trials.trial import End, Run

#: Expressions with ``good``, a point that is right, and ``y``, multipliers of the right shape.
CASES = (
    'Claim(point=good, stop="finished")',
    'Claim(point=good, stop="no such word")',
    "Claim(point=good, stop=3)",
    "Claim(point=good, stop=None)",
    "Claim(point=good, iterations=np.int64(5))",
    "Claim(point=good, iterations=10**30)",
    "Claim(point=good, iterations=-1)",
    'Claim(point=good, iterations="many")',
    "Claim(point=good, iterations=float('nan'))",
    'Claim(point=good, raw_status="lone \\udcff surrogate")',
    'Claim(point=good, raw_status="null \\x00 and \\x1b[31m")',
    'Claim(point=good, raw_status="long" * 10**6)',
    "Claim(point=good, raw_status=None)",
    "Claim(point=good, raw_status=Raising())",
    "Claim(point=good, raw_status=b'bytes')",
    "Claim(point=good, info=None)",
    "Claim(point=good, info=[1, 2])",
    "Claim(point=good, info=Raising())",
    'Claim(point=good, info={"margin": float("nan"), "gap": float("inf"), "n": 10**5000})',
    'Claim(point=good, info={"\\udcff": "\\udcff", 3: Raising(), "f": lambda: 0, "deep": [[[[[[0]]]]]]})',
    'Claim(point=good, info={"array": np.eye(300), "objects": np.array([Raising()], dtype=object)})',
    'Claim(point=good, info={"claimed": ["feasible"]})',
    "Claim(point=good, info={'r': Reducing()})",
    "Claim(point=Raising())",
    "Claim(point=(Raising(),))",
    "Claim(point=good * 1000)",
    "Claim(point=())",
    "Claim(point=3.0)",
    "Claim(point={'X': good})",
    "Claim(point=(x for x in good))",
    "Claim(point=tuple(np.asarray(x, dtype=complex) for x in good))",
    "Claim(point=tuple(np.asarray(x, dtype=object) for x in good))",
    "Claim(point=tuple(np.asarray(x, dtype='U5') for x in good))",
    "Claim(point=tuple(np.ma.masked_all(x.shape) for x in good))",
    "Claim(point=tuple(x.view(np.matrix) for x in good))",
    "Claim(point=tuple(x.astype(np.float16) for x in good))",
    "Claim(point=tuple(np.zeros((0, 3)) for x in good))",
    "Claim(point=tuple(np.full(x.shape, np.inf) for x in good))",
    "Claim(point=tuple(1e308 * x for x in good))",
    "Claim(certificate=10**400 * np.ones(1, dtype=object))",
    "Claim(certificate=np.ones((1, 1)))",
    "Claim(certificate='there')",
    "Claim(certificate=[None])",
    "Claim(certificate=y, point=good)",
    "Odd(point=good)",
    "Reducing()",
    "Claim",
    "None",
    "object.__new__(Claim)",
)

HELPERS = """
class Raising:
    def __getattribute__(self, name):
        raise RuntimeError("\\udcff do not touch")
    __str__ = __repr__ = __len__ = __iter__ = __getitem__ = __array__ = keys = __getattribute__

class Reducing:
    def __reduce__(self):
        return (os._exit, (3,))

class Odd(Claim):
    @property
    def raw_status(self):
        raise RuntimeError(Raising())
    def __init__(self, **given):
        for name, value in given.items():
            object.__setattr__(self, name, value)
"""

BODY = """
        n = problem.sets[0].n
        level = (problem.lower[0] + problem.upper[0]) / 2 / n
        good, y = (np.eye(n) * level,), -np.ones(1)
        if not problem.row_names or n - 2 >= len(CASES):
            return Claim(point=good, raw_status="optimal")
        return eval(CASES[n - 2], {**globals(), "good": good, "y": y})"""


def odd_backend(folder: Path) -> Path:
    """A backend that hands in another case for every size of the problem."""
    path = write_backend(folder, "odd", BODY)
    head, made, rest = path.read_text().partition("class Made")
    path.write_text(f"{head}{HELPERS}\nCASES = {CASES!r}\n\n{made}{rest}")
    return path


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A study of all cases, evidence kept, and an honest cell at the end."""
    folder = tmp_path_factory.mktemp("malformed")
    for k in range(len(CASES) + 1):
        trace_problem(2 + k, feasible=True).save(folder / f"p{k:02}.npz")
    plan = make_plan([str(odd_backend(folder))], [str(folder / "*.npz")], 1, Settings(time_limit=10))
    engine = LocalEngine()
    with Store(folder / "study.db") as opened:
        Runner(opened, plan, engine, keep_evidence=True).run()
        yield opened
    engine.close()


def test_every_case_costs_its_cell_only(store: Store) -> None:
    cells = store.cells()
    assert len(cells) == len(CASES) + 1
    assert {cell["state"] for cell in cells} == {"done"}
    assert {cell["attempts"] for cell in cells} == {1}
    for case, cell in zip(CASES, cells, strict=False):
        assert cell["outcome"] in ("done", "error"), (case, cell["reason"])
        assert cell["reason"], case
        assert type(cell["iterations"]) in (int, type(None)), case
        # Nothing is a lie here: what is decided was decided by the verifier, and these problems are feasible.
        assert cell["verdict"] in ("feasible", "undecided"), case
        json.loads(cell["info"], parse_constant=pytest.fail)
    assert cells[-1]["verdict"] == "feasible"


@pytest.mark.parametrize(
    ("case", "iterations"), [(CASES[0], None), (CASES[4], 5), (CASES[9], None), (CASES[18], None)]
)
def test_what_can_be_read_is_read(store: Store, case: str, iterations: int | None) -> None:
    cell = store.cells()[CASES.index(case)]
    assert (cell["outcome"], cell["verdict"], cell["iterations"]) == ("done", "feasible", iterations)
    assert cell["stop"] == "finished"


def test_the_report_and_the_tables_are_whole(store: Store, tmp_path: Path) -> None:
    page = render_html(store)
    page.encode()
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert len(json.loads(data, parse_constant=pytest.fail)["cells"]) == len(CASES) + 1
    render_markdown(store).encode()
    for ending in ("csv", "json"):
        assert write_table(store, tmp_path / f"t.{ending}") == len(CASES) + 1


# ---------------------------------------------------------------- at random


class Rude:
    """Raises whatever it is asked."""

    def __init__(self, error: BaseException) -> None:
        object.__setattr__(self, "error", error)

    def __getattribute__(self, name: str) -> Any:
        raise object.__getattribute__(self, "error")

    def __str__(self) -> str:
        raise ValueError

    __repr__ = __len__ = __iter__ = __array__ = __index__ = __float__ = __hash__ = __eq__ = __str__  # type: ignore[assignment]


#: Values that were handed in for anything.
ODD: tuple[Any, ...] = (
    *(None, True, 0, 5, -7, 10**30, 10**5000, 1.5, float("nan"), float("-inf"), 2j, Fraction(1, 3)),
    *(
        np.int8(3),
        np.uint64(2**63),
        np.float32(0.1),
        np.longdouble(1) / 3,
        np.bool_(True),
        np.datetime64("NaT"),
    ),
    *("", "optimal", "finished", "time limit", "\udc80\ud800", "\x00", "é" * 5000, b"\xff"),
    *(
        (),
        [],
        {},
        set(),
        {"a": 1},
        [1, [2, [3]]],
        range(3),
        iter([1]),
        object(),
        object,
        print,
        ValueError("x"),
    ),
    *(np.eye(3), np.zeros((3, 0)), np.array(None), np.array("x"), np.ma.masked_all(3), -np.ones(1)),
    *(
        (np.eye(3),),
        [np.eye(3), np.eye(3)],
        (np.full((3, 3), np.nan),),
        (np.eye(3) * 1e300,),
        (np.eye(3) * 2j,),
    ),
    *(Rude(RuntimeError("rude")), Rude(ValueError("\udcff")), Rude(KeyError(Rude(OSError())))),
)

FIELDS = ("point", "certificate", "raw_status", "stop", "iterations", "info")


def odd_claim(chance: random.Random) -> Any:
    """A claim with a few odd fields, or none at all."""
    if chance.random() < 0.02:
        return chance.choice(ODD)
    made = sf.Claim()
    for name in chance.sample(FIELDS, chance.randint(1, 4)):
        value = chance.choice(ODD)
        if name == "info" and chance.random() < 0.8:
            value = {chance.choice(("a", "margin", "claimed", "\udcff", 7)): value}
        object.__setattr__(made, name, value)
    return made


def test_claims_made_at_random(tmp_path: Path) -> None:
    trace_problem(3, feasible=True).save(tmp_path / "p.npz")
    plan = make_plan(["scs"], [str(tmp_path / "p.npz")], 250, Settings())
    problem = plan.build(plan.cells[0].problem)
    chance = random.Random(0)
    with Store(tmp_path / "study.db") as store:
        store.begin_run(plan, "", {}, None)
        for _ in plan.cells:
            key = store.take()
            assert key is not None
            claim = read_claim(odd_claim(chance))
            assert type(claim) is sf.Claim
            sent = sf.Claim(**{**vars(claim), "info": plain_info(claim.info)})
            run = Run(End.DONE, value=pickle.loads(pickle.dumps(sent)))
            store.finish(key, *judge(plan.cells[0], problem, run, plan.settings, keep_evidence=True))
        cells = store.cells()
        render_html(store).encode()
    assert {cell["state"] for cell in cells} == {"done"}
    assert {cell["verdict"] for cell in cells} == {"feasible", "undecided"}
    assert sum("malformed claim" in cell["reason"] for cell in cells) > 30
    assert not [cell["reason"] for cell in cells if "cannot be judged" in cell["reason"]]
