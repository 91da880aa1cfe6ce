"""Write evidence as a Coq file that states the theorem about the problem and proves it by computation.

The checker in ``coq/sdpcheck.v`` and its proof of soundness come first, so that ``coqc FILE`` needs nothing
else. Blocks are PSD matrices or free numbers there: non-negative entries are PSD(1), LMIs are PSD blocks with
equality rows. Minus the adjoint is written as a sum of ``c v v'``, and on a face also of ``w z'`` with
``X z = 0``.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from importlib.resources import files
from itertools import count
from typing import Any

from sdpfeas import sdpcheck
from sdpfeas.certifier.certify import Evidence
from sdpfeas.certifier.numbers import echelon, solve
from sdpfeas.certifier.standard_form import StandardForm, Vector
from sdpfeas.errors import NotProved

Matrix = list[list[Fraction]]
#: A positive number and a vector, for ``c v v'``.
Squares = list[tuple[Fraction, Vector]]


def coq_file(evidence: Evidence) -> str:
    """Return the text of a Coq file that proves what the evidence proves; raises NotProved for brackets."""
    document, kind = evidence.document, evidence.document["kind"]
    if kind == "bracket":
        raise NotProved("brackets have no Coq file")
    written = _Writer(StandardForm(sdpcheck.Problem(evidence.problem)))
    if kind == "feasible":
        body = written.feasible(document["primal"])
    else:
        body = written.infeasible([*document.get("steps", []), document["dual"]])
    library = files("sdpfeas.certifier").joinpath("coq/sdpcheck.v").read_text(encoding="utf-8")
    title = f"(* {evidence.statement} *)"
    return f"{library}\n{title}\n\n{written.problem()}\n{body}\nPrint Assumptions {kind}_problem.\n"


def _q(value: Fraction | int) -> str:
    value = Fraction(value)
    return (
        f"({value.numerator} # {value.denominator})" if value.denominator > 1 else f"({value.numerator} # 1)"
    )


def _vec(vector: Sequence[Fraction]) -> str:
    return f"[{'; '.join(map(_q, vector))}]"


def _list(parts: Sequence[str]) -> str:
    return "[" + ";\n   ".join(parts) + "]"


class _Writer:
    """A problem in PSD and free blocks; ``places`` are the entries (block, i, j) of the listed entries."""

    def __init__(self, form: StandardForm) -> None:
        self.form, self.blocks = form, list[str]()
        self.cones = [*form.sets, *(lmi[0] for lmi in form.lmis)]
        #: For every cone the entries of its blocks, in the order in which they are listed.
        self.places = [self._add(block) for block in self.cones]
        listed = [place for block in self.places[: len(form.sets)] for place in block]
        self.rows = [
            (low, high, [(listed[k], v) for k, v in row.items()])
            for row, (low, high) in zip(form.rows, form.bounds, strict=True)
        ]
        for own, (block, constant, parts) in zip(self.places[len(form.sets) :], form.lmis, strict=True):
            for k, weight in enumerate(block.weights()):
                entries = [(listed[c], part[k]) for c, part in parts.items() if part.get(k)]
                bound = -constant.get(k, Fraction(0))
                self.rows.append((bound, bound, [*entries, (own[k], Fraction(-weight))]))

    def _add(self, block: sdpcheck.Block) -> list[tuple[int, int, int]]:
        start = len(self.blocks)
        if block.cone == "PSD":
            self.blocks.append(f"PSD {block.side}")
            return [(start, i, j) for i in range(block.side) for j in range(i + 1)]
        self.blocks += ["PSD 1" if block.cone == "Nonneg" else "Free"] * block.size
        return [(start + k, 0, 0) for k in range(block.size)]

    def problem(self) -> str:
        """Return the definition of the problem."""
        rows = []
        for low, high, entries in self.rows:
            ends = " ".join("None" if v is None else f"(Some {_q(v)})" for v in (low, high))
            terms = "; ".join(f"term {_q(v)} {b} {i} {j}" for (b, i, j), v in entries)
            rows.append(f"Row {ends} [{terms}]")
        return (
            "Open Scope Q_scope.\nDefinition the_problem : problem := Problem\n"
            f"  {_list(self.blocks)}%nat\n  {_list(rows)}.\n"
        )

    def feasible(self, data: Any) -> str:
        """Return the theorem that a point exists, and its proof."""
        form = self.form
        x = [sdpcheck.number(v) for part in data["point"] for v in part]
        values = [list(form.part(x, b)) for b in range(len(form.sets))]
        values += [form.value(j, x) for j in range(len(form.lmis))]
        squares, free = list[str](), list[str]()
        proofs = [*data["sets"], *data["lmis"]]
        for block, places, listed, proof in zip(self.cones, self.places, values, proofs, strict=True):
            if block.cone == "PSD":
                found = decomposition(_square(block, listed), proof)
                squares += [f"({places[0][0]}%nat, {_q(c)}, {_vec(v)})" for c, v in found]
            elif block.cone == "Nonneg":
                squares += [f"({p[0]}%nat, {_q(v)}, [1 # 1])" for p, v in zip(places, listed, strict=True)]
            else:
                free += [f"({p[0]}%nat, {_q(v)})" for p, v in zip(places, listed, strict=True)]
        return (
            "Theorem feasible_problem : exists X, feasible the_problem X.\nProof.\n"
            f"  apply (feasible_sound the_problem\n  {_list(squares)}\n  {_list(free)}).\n"
            "  vm_compute. reflexivity.\nQed."
        )

    def infeasible(self, steps: Sequence[Any]) -> str:
        """Return the theorem that no point exists, and its proof."""
        faces: list[Any] = [None] * len(self.cones)
        known: list[Matrix] = [[] for _ in self.cones]
        written = []
        for data in steps:
            y = [sdpcheck.number(v) for v in data["rows"]]
            own = [[sdpcheck.number(v) for v in part] for part in data["multipliers"]]
            gradient = self.form.adjoint(y, own)
            functionals = [list(self.form.part(gradient, b)) for b in range(len(self.form.sets))]
            for (block, _, _), part in zip(self.form.lmis, own, strict=True):
                functionals.append([-v * w for v, w in zip(part, block.weights(), strict=True)])
            squares, crosses = list[str](), list[str]()
            for k, block, f, proof in zip(
                count(), self.cones, functionals, [*data["sets"], *data["lmis"]], strict=False
            ):
                places = self.places[k]
                if block.cone == "Nonneg":
                    for p, (place, v) in enumerate(zip(places, f, strict=True)):
                        if v and (faces[k] is None or p in faces[k]):
                            squares.append(f"({place[0]}%nat, {_q(-v)}, [1 # 1])")
                        elif v:
                            crosses.append(f"({place[0]}%nat, [{_q(-v)}], [1 # 1])")
                elif block.cone == "PSD":
                    found, mixed = on_face(block.square([-v for v in f]), faces[k], known[k], proof)
                    squares += [f"({places[0][0]}%nat, {_q(c)}, {_vec(v)})" for c, v in found]
                    crosses += [f"({places[0][0]}%nat, {_vec(w)}, {_vec(z)})" for w, z in mixed]
                    known[k] = independent([*known[k], *(v for c, v in found if c)])
                faces[k] = sdpcheck.polar(block, f, faces[k], proof)
            multipliers = [*y, *(v for part in own for v in part)]
            written.append(f"Step {_vec(multipliers)}\n   {_list(squares)}\n   {_list(crosses)}")
        return (
            "Theorem infeasible_problem : ~ exists X, feasible the_problem X.\nProof.\n"
            f"  apply (infeasible_sound the_problem\n  {_list(written)}).\n  vm_compute. reflexivity.\nQed."
        )


def _square(block: sdpcheck.Block, listed: Sequence[Fraction]) -> Matrix:
    return block.square([v * w for v, w in zip(listed, block.weights(), strict=True)])


def decomposition(matrix: Matrix, proof: Any) -> Squares:
    """Write a matrix with a proof of Rule 1 as a sum of ``c v v'`` with positive ``c``."""
    n = len(matrix)
    if proof is None:
        return []
    free = proof.get("free") or []
    kernel = [[sdpcheck.number(v) for v in column] for column in proof.get("kernel") or []]
    pivots = [k for k in range(n) if k not in set(free)]
    # The rows of T: every x is a member of the kernel plus T x on the pivots.
    t = []
    for p in pivots:
        row = [Fraction(int(k == p)) for k in range(n)]
        for f, column in zip(free, kernel, strict=True):
            row[f] = -column[p] / column[f]
        t.append(row)
    factor = [[sdpcheck.number(v) for v in row] for row in proof["factor"]]
    width = max(map(len, factor), default=0)
    factor = [row + [Fraction(0)] * (width - len(row)) for row in factor]
    out: Squares = []
    for own in zip(*factor, strict=True):
        out.append((Fraction(1), [sdpcheck.dot(own, part) for part in zip(*t, strict=True)]))
    margins = [matrix[p][p] - sdpcheck.dot(row, row) for p, row in zip(pivots, factor, strict=True)]
    for i, p in enumerate(pivots):
        for j in range(i):
            rest = matrix[p][pivots[j]] - sdpcheck.dot(factor[i], factor[j])
            if rest:
                margins[i] -= abs(rest)
                margins[j] -= abs(rest)
                sign = 1 if rest > 0 else -1
                out.append((abs(rest), [a + sign * b for a, b in zip(t[i], t[j], strict=True)]))
    return [(c, v) for c, v in [*out, *zip(margins, t, strict=True)] if c and any(v)]


def on_face(a: Matrix, face: Any, known: Matrix, proof: Any) -> tuple[Squares, list[tuple[Vector, Vector]]]:
    """Write ``A`` as a sum of ``c v v'`` and ``w z'`` with known ``z``, as a form on symmetric matrices.

    The columns of the face ``V`` span the vectors orthogonal to all ``z``; the proof is about ``M = V'AV``.
    With ``U V = I`` and ``C = I - V U``, whose rows are combinations ``B Z``: ``A = U'M U + K'C + C'K``.
    """
    if face is None:
        return decomposition(a, proof), []
    n, k = len(a), len(face)
    half, products = Fraction(1, 2), sdpcheck.products
    columns = [[Fraction(v) for v in column] for column in face]
    rows = echelon(columns, n)[1] if columns else []
    inverse = [
        solve([[c[p] for c in columns] for p in rows], [Fraction(int(i == j)) for i in range(k)])
        for j in range(k)
    ]
    u = [[Fraction(0)] * n for _ in range(k)]
    for j, p in enumerate(rows):
        for i in range(k):
            u[i][p] = (inverse[j] or [])[i]
    m = products(columns, products(columns, a))
    squares = [
        (c, [sdpcheck.dot(v, part) for part in zip(*u, strict=True)]) for c, v in decomposition(m, proof)
    ]
    vu = [[sum((columns[s][i] * u[s][j] for s in range(k)), Fraction(0)) for j in range(n)] for i in range(n)]
    c = [[int(i == j) - vu[i][j] for j in range(n)] for i in range(n)]
    rest = [list(row) for row in a]
    for weight, v in squares:
        for i in range(n):
            for j in range(n):
                rest[i][j] -= weight * v[i] * v[j]
    mixed = [[vu[i][j] + half * c[i][j] for j in range(n)] for i in range(n)]
    kk = products(rest, list(zip(*mixed, strict=True)))
    # C = B Z, from independent columns of Z.
    at = echelon(known, n)[1] if known else []
    b = [solve([[z[p] for z in known] for p in at], [row[p] for p in at]) or [] for row in c] if at else []
    crosses = []
    for s, z in enumerate(known):
        w = [2 * sum((kk[i][j] * b[i][s] for i in range(n)), Fraction(0)) for j in range(n)]
        if any(w):
            crosses.append((w, z))
    return squares, crosses


def independent(vectors: Matrix) -> Matrix:
    """Return the first vectors that are independent of those before them."""
    if not vectors:
        return []
    _, pivots = echelon([list(part) for part in zip(*vectors, strict=True)], len(vectors))
    return [vectors[k] for k in pivots]
