"""``solve``: whatever a backend does, the answer is a verdict with a reason, or a clear error."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

import sdpfeas as sf
from sdpfeas.trials.workers import close_shared_workers

PROBLEM = sf.FeasibilityProblem([sf.PSD(2)], [np.eye(2)[None]], [1.0], [2.0])

DROP_IN = """
import os, signal, time
import numpy as np
import sdpfeas as sf

class Odd(sf.FeasibilityBackend):
    '''Does something odd.'''
    name = "odd"
    def solve(self, problem, inquiry):
        {body}
"""

BODIES = {
    "raises": 'raise RuntimeError("no luck")',
    "returns nothing": "return None",
    "lies": 'return sf.Claim(point=(-np.eye(2),), certificate=np.array([1.0]), raw_status="optimal")',
    "wrong shape": "return sf.Claim(point=(np.eye(3),))",
    "wrong type": 'return sf.Claim(point="here", certificate="there")',
    "nan": "return sf.Claim(point=(np.full((2, 2), np.nan),), certificate=np.array([np.inf]))",
}


def drop_in(folder: Path, body: str) -> Path:
    path = folder / "odd.py"
    path.write_text(DROP_IN.format(body=body), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", BODIES)
def test_odd_backends_give_undecided_with_a_reason(tmp_path, name) -> None:
    result = sf.solve(PROBLEM, drop_in(tmp_path, BODIES[name]))
    assert result.verdict is sf.Verdict.UNDECIDED
    assert result.reason
    assert result.explain()


@pytest.mark.parametrize("body", ["raise RuntimeError('cannot say')", "return None", "return 3"])
def test_a_backend_that_cannot_say_what_it_takes_costs_one_answer(tmp_path, body) -> None:
    path = drop_in(tmp_path, f"pass\n    def accepts(self, problem):\n        {body}")
    result = sf.solve(PROBLEM, path)
    assert (result.verdict, result.stop) == (sf.Verdict.UNDECIDED, sf.Stop.ERROR)


def test_isolation_makes_the_limit_hard(tmp_path) -> None:
    path = drop_in(tmp_path, "time.sleep(60)")
    begin = time.perf_counter()
    result = sf.solve(PROBLEM, path, time_limit=0.5, isolate=True)
    assert result.stop is sf.Stop.TIME_LIMIT
    assert result.verdict is sf.Verdict.UNDECIDED
    assert "time limit" in result.reason
    assert time.perf_counter() - begin < 40


def test_isolation_survives_a_crash(tmp_path) -> None:
    result = sf.solve(PROBLEM, drop_in(tmp_path, "os.kill(os.getpid(), signal.SIGSEGV)"), isolate=True)
    assert result.stop is sf.Stop.ERROR
    assert "SIGSEGV" in result.raw_status


@pytest.mark.parametrize("solver", ["spectral-ipm", "clarabel"])
def test_isolation_gives_the_same_answer(solver) -> None:
    result = sf.solve(PROBLEM, solver, isolate=True, time_limit=60)
    assert result.verdict is sf.Verdict.FEASIBLE
    assert result.proof is sf.Proof.RIGOROUS


def test_isolation_takes_no_callback() -> None:
    with pytest.raises(sf.OptionError, match="callback"):
        sf.solve(PROBLEM, "spectral-ipm", isolate=True, callback=lambda progress: False)


#: No guard, and something that would be seen if it ran twice.
SCRIPT = """
import numpy as np, sdpfeas as sf
print("once")
p = sf.FeasibilityProblem([sf.PSD(2)], [np.eye(2)[None]], [1.0], [2.0])
print(sf.solve(p, "spectral-ipm", isolate=True).verdict)
"""

NOTEBOOK = (
    "import code; shell = code.InteractiveInterpreter(); shell.runcode(compile({!r}, '<cell>', 'exec'))"
)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["script", "standard input", "notebook"])
def test_isolation_needs_nothing_of_the_main_module(tmp_path, how) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    command = {
        "script": [sys.executable, "script.py"],
        "standard input": [sys.executable],
        "notebook": [sys.executable, "-c", NOTEBOOK.format(SCRIPT)],
    }[how]
    given = SCRIPT if how == "standard input" else ""
    found = subprocess.run(
        command, input=given, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert found.stdout.split() == ["once", "feasible"], found.stderr


@pytest.mark.slow
def test_isolation_holds_its_limit_from_the_first_call_on(tmp_path) -> None:
    """The start of a child counts, but half of the limit is left to the backend."""
    begin = time.perf_counter()
    sf.solve(PROBLEM, drop_in(tmp_path, "return sf.Claim()"), isolate=True)
    started = time.perf_counter() - begin
    limit, begin = 4.0, time.perf_counter()
    result = sf.solve(PROBLEM, drop_in(tmp_path, "time.sleep(60)"), time_limit=limit, isolate=True)
    assert result.stop is sf.Stop.TIME_LIMIT
    assert limit / 2 < time.perf_counter() - begin < max(1.1 * limit, 1.5 * started + limit / 2) + 0.5


def test_a_child_is_kept_for_our_own_backends() -> None:
    def children() -> set[int]:
        return {child.pid for child in psutil.Process().children(recursive=True)}

    close_shared_workers()
    before = children()
    sf.solve(PROBLEM, "spectral-ipm", isolate=True)
    kept = children() - before
    assert len(kept) == 2  # the child, and who watches over it
    begin = time.perf_counter()
    result = sf.solve(PROBLEM, "spectral-ipm", time_limit=5.0, isolate=True)
    assert result.verdict is sf.Verdict.FEASIBLE
    assert time.perf_counter() - begin < 1.0
    assert children() - before == kept
    close_shared_workers()
    assert children() - before == set()


def test_isolation_limits_memory(tmp_path) -> None:
    path = drop_in(tmp_path, "hoard = [np.ones(1 << 22) for _ in range(50)]; time.sleep(60)")
    result = sf.solve(PROBLEM, path, time_limit=60, isolate=True, memory_limit="300M")
    assert result.stop is sf.Stop.ERROR
    assert "out of memory: killed with" in result.raw_status
    with pytest.raises(sf.OptionError, match="needs isolate"):
        sf.solve(PROBLEM, path, memory_limit="300M")


class AtTheTop(sf.FeasibilityBackend):
    """A backend that a child can import."""

    name = "at-the-top"

    def solve(self, problem, inquiry):
        print("found it")
        return sf.Claim(point=(np.eye(2),), info={"who": os.getpid(), "where": [1, (2.0, np.eye(2))]})


def test_isolation_of_a_class(capsys) -> None:
    result = sf.solve(PROBLEM, AtTheTop, isolate=True)
    assert result.verdict is sf.Verdict.FEASIBLE
    assert result.claim.info["who"] != os.getpid()
    assert result.claim.info["where"][1][0] == 2.0
    assert capsys.readouterr() == ("", "found it\n")


def test_isolation_of_a_class_that_nobody_finds() -> None:
    class Inside(AtTheTop):
        """Defined in a function."""

        name = "inside"

    with pytest.raises(sf.BackendError, match="cannot be imported in a child process"):
        sf.solve(PROBLEM, Inside, isolate=True)


def test_isolation_of_a_class_of_the_main_module(tmp_path) -> None:
    source = "class Mine(sf.FeasibilityBackend):\n    name = 'mine'\n    def solve(self, *_, **__): pass\n"
    script = SCRIPT.replace("print(", f"{source}\nprint(", 1).replace('"spectral-ipm"', "Mine")
    found = subprocess.run(
        [sys.executable], input=script, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert "class Mine of __main__ cannot be imported in a child process" in found.stderr


def test_isolation_runs_nothing_of_the_current_folder(tmp_path, monkeypatch) -> None:
    path = drop_in(tmp_path, "return sf.Claim(point=(np.eye(2),))")
    for name in ("numpy", "scipy", "sdpfeas"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('run by accident')")
    monkeypatch.chdir(tmp_path)
    assert sf.solve(PROBLEM, path, isolate=True).verdict is sf.Verdict.FEASIBLE


def test_an_isolated_solve_dies_with_its_process(tmp_path) -> None:
    path = drop_in(tmp_path, f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(60)")
    script = SCRIPT.replace('"spectral-ipm"', repr(str(path)))
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not ((tmp_path / "pid").exists() and (tmp_path / "pid").read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    child = psutil.Process(int((tmp_path / "pid").read_text()))
    process.kill()
    process.wait()
    assert not psutil.wait_procs([child], timeout=20)[1]


def test_interrupts_pass_through(tmp_path) -> None:
    """Ctrl-C ends the call and leaves no child behind."""
    path = drop_in(tmp_path, "time.sleep(60)")
    script = tmp_path / "run.py"
    script.write_text(
        "import signal, numpy as np, sdpfeas as sf\n"
        "if __name__ == '__main__':\n"
        # Shells start background jobs with interrupts ignored, and children inherit that.
        "    signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "    p = sf.FeasibilityProblem([sf.PSD(2)], [np.eye(2)[None]], [1.0], [2.0])\n"
        "    print('go', flush=True)\n"
        f"    sf.solve(p, {str(path)!r}, isolate=True)\n",
        encoding="utf-8",
    )
    child = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline().strip() == b"go"
    time.sleep(1.0)
    os.kill(child.pid, signal.SIGINT)
    _, errors = child.communicate(timeout=60)
    assert child.returncode != 0
    assert b"KeyboardInterrupt" in errors


def test_a_numeric_verdict_is_refused_when_rigorous_is_asked_for() -> None:
    result = sf.solve(PROBLEM, "spectral-ipm", rigorous=True)
    assert result.proof in (sf.Proof.RIGOROUS, sf.Proof.EXACT)


def test_results_say_where_they_come_from() -> None:
    result = sf.solve(PROBLEM, "spectral-ipm", options={"max_iterations": 50})
    assert result.backend == "spectral-ipm"
    assert result.options["max_iterations"] == 50
    assert result.version == sf.__version__
    assert result.wall_time >= result.solve_time > 0.0


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("clarabell", "did you mean 'clarabel'"),
        ("no/such/card.toml", "no such file"),
        (3, "a name, a path or a backend class"),
    ],
)
def test_unknown_solvers_are_refused(spec, words) -> None:
    with pytest.raises(sf.BackendError, match=words):
        sf.solve(PROBLEM, spec)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"max_iteration": 3}, "did you mean 'max_iterations'"),
        ({"max_iterations": "many"}, "must be an integer"),
        ({"max_iterations": True}, "must be an integer"),
        ({"max_iterations": 0}, "at least 1"),
    ],
)
def test_bad_options_are_refused_by_name(options, words) -> None:
    with pytest.raises(sf.OptionError, match=words):
        sf.solve(PROBLEM, "spectral-ipm", options=options)


@pytest.mark.parametrize("limit", [0, -1, "soon", True, float("nan")])
def test_bad_time_limits_are_refused(limit) -> None:
    with pytest.raises(sf.OptionError, match="time_limit"):
        sf.solve(PROBLEM, "spectral-ipm", time_limit=limit)


CARDS = {
    "syntax": ("backend = ", sf.CardError, "card.toml"),
    "no backend": ("name = 'x'", sf.CardError, "needs backend"),
    "unknown key": ("backend = 'scs'\ncolour = 'red'", sf.CardError, "colour"),
    "unknown backend": ("backend = 'scss'", sf.BackendError, "scss"),
    "unknown option": ("backend = 'scs'\n[options]\nepps = 1.0", sf.CardError, "did you mean 'eps'"),
    "wrong type": ("backend = 'scs'\n[options]\neps = 'small'", sf.CardError, "must be a number"),
    "options no table": ("backend = 'scs'\noptions = 3", sf.CardError, "must be a table"),
}


@pytest.mark.parametrize("name", CARDS)
def test_bad_cards_are_refused(tmp_path, name) -> None:
    text, kind, words = CARDS[name]
    path = tmp_path / "card.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(kind, match=words):
        sf.find_solver(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("raise RuntimeError('boom')", "boom"),
        ("x = 1", "exactly one backend class"),
        ("def broken(:", "SyntaxError"),
    ],
)
def test_bad_plugins_are_refused(tmp_path, text, words) -> None:
    path = tmp_path / "plugin.py"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(sf.BackendError, match=words):
        sf.find_solver(path)


def test_cards_carry_their_options() -> None:
    solver = sf.find_solver("paper")
    assert solver.make().options.form == "lifted"
    assert solver.make(epsilon=1e-2).options.epsilon == 1e-2


def test_an_option_may_be_called_solver() -> None:
    assert sf.solve(PROBLEM, "cvxpy", options={"solver": "SCS"}).options["solver"] == "SCS"


def test_auto_says_at_once_which_name_of_its_order_stands_for_nothing() -> None:
    result = sf.solve(PROBLEM, "auto", options={"order": "spectral-ipm, clarable"})
    assert result.verdict is sf.Verdict.UNDECIDED
    assert "no solver named 'clarable'" in result.raw_status
