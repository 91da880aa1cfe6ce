"""Read and write files: problems (SDPA, SeDuMi, CBF), results, and tables of samples.

:func:`read_problem` dispatches on the file extension. A new format is one module with a function
``read_..._program(path, side)``, listed in ``READERS``.
"""

from __future__ import annotations

from os import PathLike

from sdpfeas.errors import FileFormatError
from sdpfeas.io.cbf import read_cbf_program
from sdpfeas.io.problem_files import Side
from sdpfeas.io.sdpa import read_sdpa_program
from sdpfeas.io.sedumi import read_sedumi_program
from sdpfeas.problem.objective import Objective
from sdpfeas.problem.problem import FeasibilityProblem

#: Readers of formats with an objective, by file extension.
READERS = {
    (".dat-s", ".dat-s.gz"): read_sdpa_program,
    (".mat", ".mat.gz"): read_sedumi_program,
    (".cbf", ".cbf.gz"): read_cbf_program,
}

#: File extensions of problem files.
PROBLEM_FILES = (".npz", *(extension for extensions in READERS for extension in extensions))


def read_problem(
    path: str | PathLike[str], side: Side = "primal"
) -> tuple[FeasibilityProblem, Objective | None]:
    """Read a problem and its objective from a file, by its extension.

    Parameters
    ----------
    path : path
        ``.npz`` (written by :meth:`FeasibilityProblem.save`; without an objective), ``.dat-s`` (SDPA),
        ``.mat`` (SeDuMi) or ``.cbf``; all but the first may be followed by ``.gz``.
    side : {"primal", "lmi"}
        Which of the two dual problems of an SDPA or SeDuMi file to read.

    Returns
    -------
    tuple of FeasibilityProblem and Objective
        The problem and its objective; None for the latter if the file has none.

    Raises
    ------
    FileFormatError
        If the extension is unknown or the file is malformed.

    Examples
    --------
    >>> import tempfile, numpy as np, sdpfeas as sf
    >>> problem = sf.FeasibilityProblem([sf.PSD(2)], [np.eye(2)[None]], [1.0], [1.0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sf.write_cbf(problem, f"{folder}/p.cbf", sf.Objective((np.diag([1.0, 2.0]),), "min"))
    ...     problem, objective = sf.read_problem(f"{folder}/p.cbf")
    >>> problem.m, objective.sense
    (1, 'min')
    """
    name = str(path)
    for extensions, read in READERS.items():
        if name.endswith(extensions):
            return read(path, side)
    if name.endswith(".npz"):
        return FeasibilityProblem.load(path), None
    raise FileFormatError(f"{name}: a problem file ends in {', '.join(PROBLEM_FILES)}")
