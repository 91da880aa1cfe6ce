"""The names of the library that commands use and where each is defined; imported when it is first used."""

from sdpfeas.certifier.audit import audit as audit
from sdpfeas.certifier.certify import certify as certify
from sdpfeas.certifier.coq_files import coq_file as coq_file
from sdpfeas.sdpcheck import main as main
from sdpfeas.backends.registry import (
    Solver as Solver,
    backends as backends,
    describe as describe,
    find_solver as find_solver,
)
from sdpfeas.cards.options import describe_options as describe_options
from sdpfeas.cli.progress import run_with_progress as run_with_progress
from sdpfeas.drivers.bisection import bisect as bisect
from sdpfeas.drivers.optimum import optimum as optimum
from sdpfeas.drivers.solve import solve as solve
from sdpfeas.estimators import WorstCaseLDA as WorstCaseLDA
from sdpfeas.estimators.projection_plot import new_figure as new_figure
from sdpfeas.families.parametric_family import (
    ParametricFamily as ParametricFamily,
    family_names as family_names,
    find_family as find_family,
)
from sdpfeas.families.bracket_file import (
    SavedBracket as SavedBracket,
    load_bracket as load_bracket,
    pack_bracket as pack_bracket,
    unpack_bracket as unpack_bracket,
)
from sdpfeas.families.problem_cards import (
    ProblemCard as ProblemCard,
    find_problem as find_problem,
    problem_names as problem_names,
)
from sdpfeas.io import PROBLEM_FILES as PROBLEM_FILES, read_problem as read_problem
from sdpfeas.io.result_files import (
    SavedResult as SavedResult,
    load_result as load_result,
    save_result as save_result,
    unpack_result as unpack_result,
)
from sdpfeas.verifier.conflicts import Relaxation as Relaxation
from sdpfeas.io.tables import Samples as Samples, csv_table as csv_table, read_samples as read_samples
from sdpfeas.io.solution_files import read_solution as read_solution
from sdpfeas.problem.problem import FeasibilityProblem as FeasibilityProblem
from sdpfeas.study.board.audits import audit_rounds as audit_rounds
from sdpfeas.study.board.board_data import BoardData as BoardData
from sdpfeas.study.board.problems import CARDS as CARDS, plan_board as plan_board
from sdpfeas.study.board.site import write_site as write_site
from sdpfeas.study.answers import plan_answers as plan_answers
from sdpfeas.study.dropin_process import problem_key as problem_key
from sdpfeas.study.engines import LocalEngine as LocalEngine
from sdpfeas.study.store import write_table as write_table
from sdpfeas.study.report import render_html as render_html, render_markdown as render_markdown
from sdpfeas.study.report.charts import (
    scaling_chart as scaling_chart,
    write_figure as write_figure,
    write_figures as write_figures,
)
from sdpfeas.study.report.study_data import (
    MatrixCell as MatrixCell,
    StudyData as StudyData,
    headlines as headlines,
)
from sdpfeas.study.store import Store as Store
from sdpfeas.testing import check_backend as check_backend, conformance_problem as conformance_problem
from sdpfeas.verifier import decide as decide, verify as verify
from sdpfeas.verifier.results import Check as Check, Result as Result
from sdpfeas.claims import Verdict as Verdict
from sdpfeas.study.study_file import Study as Study, StudyOptions as StudyOptions, read_study as read_study
from sdpfeas.study.releases import (
    install as install,
    list_releases as list_releases,
    release_order as release_order,
    run_in as run_in,
)
from sdpfeas.study.scaling import read_benchmarks as read_benchmarks, scalings as scalings
from sdpfeas.study.history import (
    compare_cells as compare_cells,
    select_version as select_version,
    version_table as version_table,
    versions as versions,
)
