"""The linear map A, block by block.

``Rows`` holds the part of every row that acts on one block. The kinds form a closed list, so that problems
can be hashed and saved; each keeps its structure and none forms what structure gives for free:

========================  =====================================================================
``Dense``                 ``A_i`` as arrays
``Sparse``                ``A_i`` as rows of one sparse matrix
``LowRank``               ``A_i = sum_k s_ik f_ik f_ik'``
``PairwiseDifference``    ``A_ij = (m_i - m_j)(m_i - m_j)'`` for all pairs i < j
``Stacked``               the rows of several kinds, one after the other
``Combined``              sparse linear combinations of the rows of another kind
``NoRows``                zero rows, on a block that no row touches
========================  =====================================================================

Beside ``apply`` and ``adjoint`` each kind gives *enclosures*: a value with a radius that provably covers
every rounding error, for the verifier.
"""

from sdpfeas.problem.rows.base import Rows
from sdpfeas.problem.rows.compose import Combined, Stacked
from sdpfeas.problem.rows.convert import as_rows, rows_from_state
from sdpfeas.problem.rows.dense import Dense
from sdpfeas.problem.rows.low_rank import LowRank
from sdpfeas.problem.rows.pairwise import PairwiseDifference
from sdpfeas.problem.rows.sparse import NoRows, Sparse

__all__ = [
    "Combined",
    "Dense",
    "LowRank",
    "NoRows",
    "PairwiseDifference",
    "Rows",
    "Sparse",
    "Stacked",
    "as_rows",
    "rows_from_state",
]
