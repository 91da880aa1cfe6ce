"""Time solvers on problems, one benchmark per pair: by default those of ``cards.toml``.

``pytest benchmarks/bench_cards.py --sdpfeas-study benchmarks/cards.toml`` takes them from the study file;
``--sdpfeas-solver`` and ``--sdpfeas-problem`` name others. ``extra_info`` in the JSON holds the verdict and
the hashes of solver and problem: times of two commits are comparable where these agree.
"""

from __future__ import annotations

from typing import Any

from sdpfeas.testing import benchmark_solve


def test_card(benchmark: Any, solver: Any, instance: Any) -> None:
    benchmark.group = instance.label
    benchmark_solve(benchmark, solver, instance.problem)
