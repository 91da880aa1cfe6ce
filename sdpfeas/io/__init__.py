"""Reading and writing problems."""

from __future__ import annotations

from os import PathLike

from sdpfeas.errors import FileFormatError
from sdpfeas.io.cbf import read_cbf_program
from sdpfeas.io.sdpa import Side, read_sdpa_program
from sdpfeas.io.sedumi import read_sedumi_program
from sdpfeas.problem.objective import Objective
from sdpfeas.problem.problem import FeasibilityProblem

# ------------------------------------------------------------
# Files that hold a problem, by the ends of their names.

#: What reads a file with two sides and objectives, by the ends of its name.
READERS = {
    (".dat-s", ".dat-s.gz"): read_sdpa_program,
    (".mat", ".mat.gz"): read_sedumi_program,
    (".cbf", ".cbf.gz"): read_cbf_program,
}

#: Ends of the names of all files that hold a problem.
PROBLEM_FILES = (".npz", *(end for ends in READERS for end in ends))


def read_problem(
    path: str | PathLike[str], side: Side = "primal"
) -> tuple[FeasibilityProblem, Objective | None]:
    """Read a problem and its objective from a file, whose name tells what kind it is.

    Parameters
    ----------
    path : path
        ``.npz`` (our own; without an objective), ``.dat-s`` (SDPA), ``.mat`` (SeDuMi) or ``.cbf``, all but
        the first maybe with ``.gz`` behind.
    side : {"primal", "lmi"}
        The side to read, of a file that has two.

    Raises
    ------
    FileFormatError
        If the file is not what its name says, or the name says nothing.
    """
    name = str(path)
    for ends, read in READERS.items():
        if name.endswith(ends):
            return read(path, side)
    if name.endswith(".npz"):
        return FeasibilityProblem.load(path), None
    raise FileFormatError(f"{name}: a problem file ends in {', '.join(PROBLEM_FILES)}")
