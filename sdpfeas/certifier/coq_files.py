"""Write evidence as a Coq file that states the theorem about the problem and proves it by computation.

The checker in ``coq/sdpcheck.v`` and its proof of soundness come first, so that ``coqc FILE`` needs nothing
else. Blocks are PSD matrices or free numbers there: non-negative entries are PSD(1), LMIs are PSD blocks with
equality rows. Minus the adjoint is written as a sum of ``c v v'``, and on a face also of ``w z'`` with
``X z = 0``; a point is such a sum, in two parts: few entries have the long denominators of exact
solutions, and only what they leave when rounded is written with them. All numbers of evidence are multiplied
to integers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from importlib.resources import files
from math import lcm
from typing import Any

from sdpfeas import sdpcheck
from sdpfeas.certifier.certify import Evidence
from sdpfeas.certifier.faces import own_indices
from sdpfeas.certifier.numbers import echelon, on_grid, primitive, solve
from sdpfeas.certifier.standard_form import StandardForm, Vector, functional

Matrix = list[list[Fraction]]
#: A positive number and a vector, for ``c v v'``.
Squares = list[tuple[Fraction, Vector]]

#: Integers of more digits are written in hexadecimal, which Coq reads faster.
DECIMAL_DIGITS = 20


def coq_file(evidence: Evidence) -> str:
    """Return the text of a Coq file that proves what the evidence proves."""
    document, kind = evidence.document, evidence.document["kind"]
    written = _Writer(sdpcheck.Problem(evidence.problem))
    library = files("sdpfeas.certifier").joinpath("coq/sdpcheck.v").read_text(encoding="utf-8")
    body = getattr(written, kind)(document)
    return (
        f"{library}\n(* {evidence.statement} *)\n\n{written.problem()}\n{body}\n"
        f"Print Assumptions {kind}_problem.\n"
    )


def _z(value: Fraction | int) -> str:
    whole = int(value)
    return str(whole) if abs(whole) < 10**DECIMAL_DIGITS else f"{whole:#x}"


def _q(value: Fraction | int) -> str:
    return f"({_z(value.numerator)} # {_z(value.denominator)})"


def _whole(values: Iterable[Fraction]) -> str:
    return f"[{'; '.join(map(_z, values))}]"


def _vec(vector: Sequence[Fraction]) -> str:
    """Write a vector without the zeros at its ends; Coq reads fewer numbers faster."""
    places = [k for k, v in enumerate(vector) if v] or [0]
    first, last = places[0], places[-1]
    if len(places) == 2 and last > first + 1 and vector[first] == 1:
        return f"two {first}%nat {last}%nat ({_z(vector[last])})"
    return f"dense {first}%nat {_whole(vector[first : last + 1])}"


def _list(parts: Iterable[str]) -> str:
    return "[" + ";\n   ".join(parts) + "]"


def _denominator(values: Iterable[Fraction]) -> int:
    return lcm(*(v.denominator for v in values))


def _theorem(kind: str, statement: str, proof: str) -> str:
    return f"Theorem {kind}_problem : {statement}.\nProof.\n  {proof}\nQed."


@dataclass
class _Part:
    """A part of a point: squares and numbers on blocks, and small entries with shares of the diagonal."""

    squares: list[tuple[int, Fraction, Vector]] = field(default_factory=list)
    free: list[tuple[int, Fraction]] = field(default_factory=list)
    small: list[tuple[int, int, int, Fraction]] = field(default_factory=list)

    def denominator(self) -> int:
        squares, free = (c for _, c, _ in self.squares), (v for _, v in self.free)
        return _denominator([*squares, *free, *(v for *_, v in self.small)])

    def text(self, scale: int, share: int) -> str:
        squares = _list(f"({b}%nat, {_z(c * scale)}, {_vec(v)})" for b, c, v in self.squares)
        if self.small:
            entries = (f"({b}%nat, {i}%nat, {j}%nat, {_z(v * scale)})" for b, i, j, v in self.small)
            squares = f"(flat_map (left_over {_z(share)}) {_list(entries)} ++\n  {squares})"
        return f"Part\n  {squares}\n  {_list(f'({b}%nat, {_z(v * scale)})' for b, v in self.free)}"


class _Writer:
    """A problem in PSD and free blocks; ``places`` are the entries (block, i, j) of the listed entries."""

    def __init__(self, problem: sdpcheck.Problem) -> None:
        self.given, self.form = problem, StandardForm.of(problem)
        self.blocks = list[str]()
        #: For every cone the entries of its blocks, in the order in which they are listed.
        self.places = [self._add(block) for block in self.form.blocks]
        listed = [place for block in self.places for place in block]
        self.rows = [
            (low, high, [(listed[k], v) for k, v in row.items()])
            for row, (low, high) in zip(self.form.rows, self.form.bounds, strict=True)
        ]
        self.denominators = [
            _denominator([*(v for v in (low, high) if v is not None), *(v for _, v in entries)])
            for low, high, entries in self.rows
        ]
        self.sign = 1 if problem.sense == "min" else -1
        self.goal = {k: self.sign * v for k, v in functional(problem.objective).items()}
        self.costs = [(listed[k], self.sign * v) for k, v in self.goal.items()]

    def _add(self, block: sdpcheck.Block) -> list[tuple[int, int, int]]:
        start = len(self.blocks)
        if block.cone == "PSD":
            self.blocks.append(f"PSD {block.side}")
            return [(start, i, j) for i in range(block.side) for j in range(i + 1)]
        self.blocks += ["PSD 1" if block.cone == "Nonneg" else "Free"] * block.size
        return [(start + k, 0, 0) for k in range(block.size)]

    def problem(self) -> str:
        """Return the definition of the problem."""

        def terms(entries: Iterable[tuple[Any, Fraction]]) -> str:
            return "; ".join(f"term {_q(v)} {b} {i} {j}" for (b, i, j), v in entries)

        rows = []
        for low, high, entries in self.rows:
            ends = " ".join("None" if v is None else f"(Some {_q(v)})" for v in (low, high))
            rows.append(f"Row {ends} [{terms(entries)}]")
        out = (
            "Open Scope Q_scope.\nDefinition the_problem : problem := Problem\n"
            f"  {_list(self.blocks)}%nat\n  {_list(rows)}.\n"
        )
        if self.given.has_objective:
            costs = f"{_q(self.given.constant)} [{terms(self.costs)}]"
            out += f"Definition the_objective : objective := Objective {costs}.\n"
        return out + (
            "Open Scope Z_scope.\nDefinition denominators : list positive :=\n"
            f"  [{'; '.join(map(_z, self.denominators))}]%positive.\n"
        )

    def feasible(self, document: Any) -> str:
        """Return the theorem that a point exists, and its proof."""
        definitions, point = self._point(document["primal"])
        proof = f"apply (feasible_sound the_problem denominators\n  {point}).\n"
        statement = "exists X, feasible the_problem X"
        return definitions + _theorem("feasible", statement, proof + "  vm_cast_no_check (eq_refl true).")

    def infeasible(self, document: Any) -> str:
        """Return the theorem that no point exists, and its proof."""
        steps, _, _ = self._steps([*document.get("steps", []), document["dual"]])
        proof = f"apply (infeasible_sound the_problem denominators\n  {steps}).\n"
        statement = "~ exists X, feasible the_problem X"
        return _theorem("infeasible", statement, proof + "  vm_cast_no_check (eq_refl true).")

    def bracket(self, document: Any) -> str:
        """Return the theorem that an optimal value is between two ends, and its proof."""
        least = _denominator(v for _, v in self.costs)
        ends = (document["lower"], document["upper"])[:: self.sign]
        outer, inner = (None if v is None else _q(sdpcheck.number(v)) for v in ends)
        # Every end is a lemma of its own: tactics would check a proof by computation again.
        lemmas, statements, proofs = list[str](), list[str](), list[str]()
        relation = "{1} <= {0}" if self.sign == 1 else "{0} <= {1}"
        about = f"({self.sign}) the_objective"
        if outer is not None:
            claim = relation.format("cost the_objective X", f"Q2R {outer}")
            statements.append(f"(forall X, feasible the_problem X -> {claim})%R")
            steps, scale, bound = self._steps(
                [*document.get("steps", []), document["dual"]], least, objective=True
            )
            given = f"{about} {least} {_z(scale // least)} ({_z(bound)}) {outer}"
            lemmas.append(
                f"Definition steps : list step :=\n  {steps}.\n"
                f"Lemma bound : forall X, feasible the_problem X ->\n"
                f"  (IZR ({self.sign}) * Q2R {outer} <= IZR ({self.sign}) * cost the_objective X)%R.\n"
                f"Proof.\n  refine (bound_sound the_problem denominators\n  steps {given} _).\n"
                "  vm_cast_no_check (eq_refl true).\nQed.\n"
            )
            proofs.append("intros X F. generalize (bound X F). lra.")
        if inner is not None:
            claim = relation.format(f"Q2R {inner}", "cost the_objective X")
            statements.append(f"(exists X, feasible the_problem X /\\ {claim})%R")
            definitions, point = self._point(document["primal"])
            lemmas.append(
                f"{definitions}Lemma attained : exists X, feasible the_problem X /\\\n"
                f"  (IZR ({self.sign}) * cost the_objective X <= IZR ({self.sign}) * Q2R {inner})%R.\n"
                "Proof.\n  refine (attained_sound the_problem denominators\n"
                f"  {point}\n  {about} {least} {inner} _).\n"
                "  vm_cast_no_check (eq_refl true).\nQed.\n"
            )
            proofs.append("destruct attained as [X [F L]]. exists X. split; [exact F|lra].")
        body = proofs[0] if len(proofs) == 1 else "split.\n  - " + "\n  - ".join(proofs)
        return "".join(lemmas) + _theorem("bracket", " /\\\n  ".join(statements), body)

    def _point(self, data: Any) -> tuple[str, str]:
        """Return definitions of two parts of a point, and numbers ``k`` and ``m`` with their names.

        The point is ``(m * short + rest) / k``. Coq would read and compute parts without names repeatedly.
        """
        x = self.form.completed([sdpcheck.number(v) for part in data["point"] for v in part])
        bits = max((v.denominator.bit_length() for v in x if dyadic(v)), default=0)
        parts = _Part(), _Part()
        proofs = [*data["sets"], *data["lmis"]]
        for b, (block, places, proof) in enumerate(zip(self.form.blocks, self.places, proofs, strict=True)):
            listed = self.form.part(x, b)
            if block.cone == "PSD":
                matrix = block.square([v * w for v, w in zip(listed, block.weights(), strict=True)])
                short, small, exact = short_and_rest(matrix, proof, bits)
                start = places[0][0]
                for part, squares in zip(parts, (short, exact), strict=True):
                    part.squares += [(start, c, v) for c, v in squares]
                parts[1].small += [(start, i, j, v) for i, j, v in small]
                continue
            for place, v in zip(places, listed, strict=True):
                near = v if dyadic(v) else Fraction(math.floor(v * 2**bits), 2**bits)
                for part, value in zip(parts, (near, v - near), strict=True):
                    if value and block.cone == "Nonneg":
                        part.squares.append((place[0], value, [Fraction(1)]))
                    elif value:
                        part.free.append((place[0], value))
        first, second = (part.denominator() for part in parts)
        scale = lcm(first, second, 2**bits)
        definitions = f"Definition short := {parts[0].text(first, 0)}.\n"
        definitions += f"Definition rest := {parts[1].text(scale, scale >> bits)}.\n"
        return definitions, f"{_z(scale)} {_z(scale // first)} short rest"

    def _steps(
        self, steps: Sequence[Any], least: int = 1, *, objective: bool = False
    ) -> tuple[str, int, Fraction]:
        """Return steps as a list, the scale of the last one, and the bound that it proves, scaled."""
        faces: list[Any] = [None] * len(self.form.blocks)
        #: For every block vectors ``z`` with ``X z = 0``, each with its number.
        known: dict[int, list[tuple[int, Vector]]] = {}
        count, written = 0, list[str]()
        bounds = list(self.form.bounds)
        for number, data in enumerate(steps):
            last = number == len(steps) - 1
            y = [sdpcheck.number(v) for part in (data["rows"], *data["multipliers"]) for v in part]
            gradient = self.form.adjoint(y, self.goal if objective and last else None)
            squares, crosses = list[tuple[int, Fraction, Vector]](), list[tuple[int, Vector]]()
            proofs = [*data["sets"], *data["lmis"]]
            for k, (block, places, proof) in enumerate(
                zip(self.form.blocks, self.places, proofs, strict=True)
            ):
                f = list(self.form.part(gradient, k))
                if block.cone == "Nonneg":
                    for p, ((b, _, _), v) in enumerate(zip(places, f, strict=True)):
                        if v and (faces[k] is None or p in faces[k]):
                            squares.append((b, -v, [Fraction(1)]))
                        elif v:
                            crosses.append((known[b][0][0], [-v]))
                elif block.cone == "PSD":
                    held = known.get(places[0][0], [])
                    kept = [held[i] for i in independent([z for _, z in held])]
                    found, mixed = on_face(
                        block.square([-v for v in f]), faces[k], [z for _, z in kept], proof
                    )
                    squares += [(places[0][0], c, v) for c, v in found]
                    crosses += [(i, w) for (i, _), w in zip(kept, mixed, strict=True) if any(w)]
                faces[k] = sdpcheck.polar(block, f, faces[k], proof)
            for b, _, v in squares:
                known.setdefault(b, []).append((count, v))
                count += 1
            over = [v / d for v, d in zip(y, self.denominators, strict=True)]
            scale = _denominator([*over, *(c for _, c, _ in squares), *(v for _, w in crosses for v in w)])
            scale = lcm(scale, least)
            written.append(
                f"Step {_whole([v * scale for v in over])}\n   "
                + _list(f"({b}%nat, {_z(c * scale)}, {_vec(v)})" for b, c, v in squares)
                + "\n   "
                + _list(f"({i}%nat, {_vec([v * scale for v in w])})" for i, w in crosses)
            )
            total = sum((v * (bounds[i][v < 0] or 0) for i, v in enumerate(y) if v), Fraction(0))
            bounds = [(pair[v < 0],) * 2 if v else pair for pair, v in zip(bounds, y, strict=True)]
        return _list(written), scale, total * scale


def decomposition(matrix: Matrix, proof: Any) -> Squares:
    """Write a matrix with a proof of Rule 1 as a sum of ``c v v'`` with positive ``c`` and integers ``v``."""
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
    return [_square(c, v) for c, v in [*out, *zip(margins, t, strict=True)] if c and any(v)]


def dyadic(value: Fraction) -> bool:
    """Whether a denominator is a power of two."""
    return value.denominator & (value.denominator - 1) == 0


def short_and_rest(
    matrix: Matrix, proof: Any, bits: int
) -> tuple[Squares, list[tuple[int, int, Fraction]], Squares]:
    """Write a matrix as squares of short numbers, small entries left by rounding to ``bits``, and squares.

    Each small entry has a share ``2 ** -bits`` of the diagonal, for itself and for its transpose. Where the
    proof has no room for that, and on a face, all squares are exact.
    """
    exact = decomposition(matrix, proof)
    if all(dyadic(v) for row in matrix for v in row):
        return exact, [], []
    if proof.get("free"):
        return [], [], exact
    near = [[v if dyadic(v) else on_grid(v, bits) for v in row] for row in matrix]
    gaps = ((i, j, row[j] - near[i][j]) for i, row in enumerate(matrix) for j in range(i + 1))
    small = [each for each in gaps if each[2]]
    for i, j, _ in small:
        for k in {i, j}:
            near[k][k] -= Fraction(1, 2**bits)
    short = decomposition(near, proof)
    return (short, small, []) if all(c > 0 for c, _ in short) else ([], [], exact)


def _square(c: Fraction, v: Vector) -> tuple[Fraction, Vector]:
    """Write ``c v v'`` with integers ``v``."""
    whole = primitive(v)
    k = next(i for i, a in enumerate(v) if a)
    return c * (v[k] / whole[k]) ** 2, whole


def on_face(a: Matrix, face: Any, known: Matrix, proof: Any) -> tuple[Squares, Matrix]:
    """Write ``A`` as a sum of ``c v v'`` and, for each known ``z``, ``w z'``, up to its symmetric part.

    The columns of the face ``V`` span the vectors orthogonal to all ``z``; the proof is about ``M = V'AV``.
    With ``U V = I`` and ``C = I - V U``, whose rows are combinations ``B Z``: ``A = U'M U + K'C + C'K``.
    """
    if face is None:
        return decomposition(a, proof), []
    n, products, half = len(a), sdpcheck.products, Fraction(1, 2)
    places = zip(own_indices(face), face, strict=True)
    u = [[Fraction(int(p == i)) / column[p] for i in range(n)] for p, column in places]
    u_columns = list(zip(*u, strict=True)) if u else [()] * n
    vu = products(list(zip(*face, strict=True)), u_columns) if u else [[0] * n for _ in range(n)]
    squares = [
        _square(c, [sdpcheck.dot(v, part) for part in u_columns])
        for c, v in decomposition(products(face, products(face, a)), proof)
    ]
    rest = [list(row) for row in a]
    for c, v in squares:
        rest = [[r - c * x * y for r, y in zip(row, v, strict=True)] for row, x in zip(rest, v, strict=True)]
    mixed = [[half * (vu[i][j] + int(i == j)) for i in range(n)] for j in range(n)]
    k_columns = list(zip(*products(rest, mixed), strict=True))
    # C = B Z, from independent columns of Z.
    at = echelon(known, n)[1] if known else []
    square = [[z[p] for z in known] for p in at]
    b = [solve(square, [Fraction(int(i == p)) - vu[i][p] for p in at]) or [] for i in range(n)] if at else []
    return squares, [[2 * v for v in row] for row in products(list(zip(*b, strict=True)), k_columns)]


def independent(vectors: Matrix) -> list[int]:
    """Return the positions of the first vectors that are independent of those before them."""
    return echelon([list(part) for part in zip(*vectors, strict=True)], len(vectors))[1] if vectors else []
