"""What the commands take from the library, imported when it is first asked for.

A command says ``lib.solve`` and needs nothing but this module until it runs: help and completion are quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sdpfeas.extras import on_demand

if TYPE_CHECKING:
    from sdpfeas.auditor.audit import audit
    from sdpfeas.backends.registry import Solver, backends, describe
    from sdpfeas.cards.options import describe_options
    from sdpfeas.cli.fitting import check_outputs, fitted, standardized, write_fit
    from sdpfeas.cli.inputs import (
        bracket_value,
        describe_problem,
        is_problem_file,
        load_member,
        load_problem,
        named_problem,
        named_solver,
    )
    from sdpfeas.cli.progress import run_shown
    from sdpfeas.drivers.bisection import bisect
    from sdpfeas.drivers.solve import solve
    from sdpfeas.families.base import ParametricFamily, family_names, find_family
    from sdpfeas.families.bracket_file import SavedBracket, load_bracket, pack_bracket, unpack_bracket
    from sdpfeas.families.problem_cards import ProblemCard, find_problem, problem_names
    from sdpfeas.io.results import SavedResult, load_result, save_result, unpack_result
    from sdpfeas.io.tables import read_samples
    from sdpfeas.problem.problem import FeasibilityProblem
    from sdpfeas.study.board.audits import audit_rounds
    from sdpfeas.study.board.board_data import BoardData
    from sdpfeas.study.board.problems import CARDS, plan_board
    from sdpfeas.study.board.site import write_site
    from sdpfeas.study.dropin_process import problem_key
    from sdpfeas.study.engines import DaskEngine, Engine, JoblibEngine, LocalEngine
    from sdpfeas.study.export import write_table
    from sdpfeas.study.plan import make_plan
    from sdpfeas.study.report import render_html, render_markdown
    from sdpfeas.study.report.charts import write_figures
    from sdpfeas.study.report.study_data import MatrixCell, StudyData, headlines
    from sdpfeas.study.store import Store
    from sdpfeas.testing import check_backend
    from sdpfeas.verifier import decide, verify
    from sdpfeas.verifier.results import Check, Result
    from sdpfeas.verifier.verdicts import Verdict
else:
    __getattr__ = on_demand(
        __name__,
        {
            "sdpfeas.auditor.audit": ["audit"],
            "sdpfeas.backends.registry": ["Solver", "backends", "describe"],
            "sdpfeas.cards.options": ["describe_options"],
            "sdpfeas.cli.fitting": ["check_outputs", "fitted", "standardized", "write_fit"],
            "sdpfeas.cli.inputs": [
                "bracket_value",
                "describe_problem",
                "is_problem_file",
                "load_member",
                "load_problem",
                "named_problem",
                "named_solver",
            ],
            "sdpfeas.cli.progress": ["run_shown"],
            "sdpfeas.families.base": ["ParametricFamily", "family_names", "find_family"],
            "sdpfeas.families.problem_cards": ["ProblemCard", "find_problem", "problem_names"],
            "sdpfeas.families.bracket_file": [
                "SavedBracket",
                "load_bracket",
                "pack_bracket",
                "unpack_bracket",
            ],
            "sdpfeas.io.results": ["SavedResult", "load_result", "save_result", "unpack_result"],
            "sdpfeas.io.tables": ["read_samples"],
            "sdpfeas.problem.problem": ["FeasibilityProblem"],
            "sdpfeas.drivers.bisection": ["bisect"],
            "sdpfeas.drivers.solve": ["solve"],
            "sdpfeas.study.board.audits": ["audit_rounds"],
            "sdpfeas.study.board.board_data": ["BoardData"],
            "sdpfeas.study.board.problems": ["CARDS", "plan_board"],
            "sdpfeas.study.board.site": ["write_site"],
            "sdpfeas.study.engines": ["DaskEngine", "Engine", "JoblibEngine", "LocalEngine"],
            "sdpfeas.study.export": ["write_table"],
            "sdpfeas.study.dropin_process": ["problem_key"],
            "sdpfeas.study.plan": ["make_plan"],
            "sdpfeas.study.report": ["render_html", "render_markdown"],
            "sdpfeas.study.report.charts": ["write_figures"],
            "sdpfeas.study.report.study_data": ["MatrixCell", "StudyData", "headlines"],
            "sdpfeas.study.store": ["Store"],
            "sdpfeas.testing": ["check_backend"],
            "sdpfeas.verifier": ["decide", "verify"],
            "sdpfeas.verifier.results": ["Check", "Result"],
            "sdpfeas.verifier.verdicts": ["Verdict"],
        },
    )
