"""Check exact evidence about a semidefinite problem: ``python sdpcheck.py [PROBLEM] EVIDENCE``.

This file runs alone on Python's standard library. It searches for nothing: it reads JSON, multiplies and
compares exact numbers. docs/certificate-format.md describes the format and proves the rules named here.

A symmetric matrix is listed as its entries on and below the diagonal, row by row. A functional ``f`` maps
positions of listed entries to coefficients, ``f(x) = sum_k f_k x_k``: <A, X> has ``2 A_ij`` off the diagonal.
"""

import hashlib
import json
import re
import sys
from collections import defaultdict
from contextlib import suppress
from fractions import Fraction
from itertools import accumulate
from math import lcm
from operator import mul
from typing import Any

RATIONAL = re.compile(r"(-?(?:0|[1-9][0-9]*|0x[0-9a-f]+))(?:/([1-9][0-9]*|0x[1-9a-f][0-9a-f]*))?")
BINARY = re.compile(r"(-?)0x([0-9a-f]+)(?:\.([0-9a-f]+))?p([+-]?[0-9]{1,5})")


#: Largest number of entries of all blocks together and of an LMI, and of bytes of memory.
MOST_ENTRIES, MOST_MEMORY = 5_000_000, 2**32


class Refused(ValueError):
    """Raised if evidence does not prove what it claims."""


def require(condition: Any, reason: str) -> None:
    """Raise ``Refused`` unless a condition holds."""
    if not condition:
        raise Refused(reason)


def number(value: Any) -> Fraction:
    """Read an integer, "p/q" with decimal or hexadecimal integers, or "0x1.8p-3" (the format %a of C)."""
    if type(value) is int:
        return Fraction(value)
    require(type(value) is str and len(value) < 50_000, "a number is malformed")
    if found := RATIONAL.fullmatch(value):
        return Fraction(int(found[1], 0), int(found[2] or "1", 0))
    found = BINARY.fullmatch(value)
    require(found, f"a number is malformed: {value[:40]!r}")
    sign, whole, part, exponent = found.groups("") if found else "0000"
    return Fraction(2) ** (int(exponent) - 4 * len(part)) * int(sign + whole + part, 16)


def items(value: Any, count: int | None = None) -> Any:
    """Return a list, if it is one, of the given length."""
    require(type(value) is list and count in (None, len(value)), "a list is missing or has the wrong length")
    return value


def numbers(value: Any, count: int | None = None) -> list[Fraction]:
    """Read a list of numbers."""
    return [number(v) for v in items(value, count)]


def index(value: Any, count: int) -> int:
    """Read an index below ``count``."""
    require(type(value) is int and 0 <= value < count, "an index is out of range")
    return int(value)


def fields(value: Any, required: tuple[str, ...], **optional: Any) -> list[Any]:
    """Return the values of an object with these keys and no others, but for "about"; give missing ones."""
    require(type(value) is dict, "an object is missing")
    require(set(required) <= set(value) <= {*required, *optional, "about"}, f"the keys are not {required}")
    return [value.get(key, optional.get(key)) for key in (*required, *optional)]


def integers(rows: Any) -> tuple[list[list[int]], int]:
    """Write rows of numbers as integers over one common denominator."""
    d = lcm(*(v.denominator for row in rows for v in row))
    require(d.bit_length() * sum(map(len, rows)) <= 8 * MOST_MEMORY, "a common denominator is too long")
    return [[v.numerator * (d // v.denominator) for v in row] for row in rows], d


def dot(a: Any, b: Any) -> Any:
    """Return an inner product; missing entries at the end are zero."""
    return sum(map(mul, a, b))


def products(a: Any, b: Any) -> list[list[Fraction]]:
    """Return the inner products of all rows of ``a`` with all rows of ``b``."""
    (first, d), (second, e) = integers(a), integers(b)
    return [[Fraction(dot(u, v), d * e) for v in second] for u in first]


class Block:
    """A set. Second-order and Hermitian cones are images of semidefinite matrices, boxes are LMIs."""

    def __init__(self, spec: Any) -> None:
        self.box = type(spec) is dict and spec.get("kind") == "SpectralBox"
        self.kind, n, *ends = fields(spec, ("kind", "n", *(("lower", "upper", "trace") if self.box else ())))
        self.n = index(n, MOST_ENTRIES)
        cones = {"PSD": "PSD", "SecondOrder": "PSD", "HermitianPSD": "PSD", "Nonneg": "Nonneg"}
        require(self.kind in (*cones, "Free", "SpectralBox"), "a set is unknown")
        self.cone = cones.get(self.kind, "Free")
        self.side = 2 * n if self.kind == "HermitianPSD" else n
        self.packed = self.box or self.cone == "PSD"
        self.size = self.side * (self.side + 1) // 2 if self.packed else n
        require(0 < self.size <= MOST_ENTRIES, "a set is empty or too large")
        if self.box:
            self.lower, self.upper = number(ends[0]), number(ends[1])
            require(self.lower <= self.upper, "the bounds of a box are in the wrong order")
            self.trace = None if ends[2] is None else number(ends[2])
            self.diagonal = [i * (i + 3) // 2 for i in range(n)]

    def spread(self, where: Any) -> list[tuple[int, int, Any]]:
        """Return the entries of the symmetric matrix ``M`` with ``x_k = <M, X>``, for a coordinate ``k``."""
        square = self.packed and self.kind != "SecondOrder"
        i, j = (index(k, self.n) for k in (items(where, 2) if square else [*items(where, 1), 0]))
        if self.kind == "SecondOrder":
            return [(i, 0, 1), (0, i, 1)] if i else [(k, k, 1) for k in range(self.n)]
        if not self.packed:
            return [(i, i, 1)]
        if self.kind == "HermitianPSD":  # Re + Im, in [[Re, -Im], [Im, Re]]
            m, half = self.n, Fraction(1, 2)
            real = [(i, j, half), (j, i, half), (m + i, m + j, half), (m + j, m + i, half)]
            return [*real, (m + i, j, half), (m + j, i, -half), (j, m + i, half), (i, m + j, -half)]
        require(i >= j, "an entry is above the diagonal")
        return [(i, i, 1)] if i == j else [(i, j, 1), (j, i, 1)]

    def functional(self, value: Any) -> dict[int, Fraction]:
        """Read entries [i, v] or [i, j, v] of a vector or matrix ``A`` as the functional <A, .>."""
        out, seen = defaultdict[int, Fraction](Fraction), set()
        for entry in items(value):
            require(len(items(entry)) > 1, "an entry is malformed")
            *where, v = entry
            require(repr(where) not in seen, "an entry is given twice")
            seen.add(repr(where))
            for a, b, times in self.spread(where):
                k = max(a, b) * (max(a, b) + 1) // 2 + min(a, b) if self.packed else a
                out[k] += number(v) * times
        return out

    def weights(self) -> list[int]:
        """Return the coefficient of every listed entry in the inner product."""
        return [1 + (i != j) for i in range(self.side) for j in range(i + 1)] if self.packed else [1] * self.n

    def square(self, f: list[Any]) -> list[list[Any]]:
        """Return the symmetric matrix of a functional."""
        low = [f[i * (i + 1) // 2 :][: i + 1] for i in range(self.side)]
        n = range(self.side)
        return [[low[max(i, j)][min(i, j)] / (1 + (i != j)) for j in n] for i in n]


def semidefinite(matrix: list[list[Any]], proof: Any) -> list[list[Any]]:
    """Rule 1: check that a matrix ``M`` is positive semidefinite; return columns that span its kernel.

    ``M w = 0`` for the columns ``w`` of ``kernel``; at each index in ``free`` one of them is not zero. On the
    other indices ``M = L L' + R``, and ``R`` is strictly diagonally dominant. Without a proof ``M = 0``.
    """
    n = len(matrix)
    if proof is None:
        require(not any(map(any, matrix)), "a matrix without a proof is not zero")
        return [[int(i == j) for j in range(n)] for i in range(n)]
    m, d = integers(matrix)
    given, free, kernel = fields(proof, ("factor",), free=[], kernel=[])
    free = [index(k, n) for k in items(free)]
    columns = [numbers(column, n) for column in items(kernel, len(free))]
    for j, column in enumerate(integers(columns)[0]):
        require(all((column[k] != 0) == (i == j) for i, k in enumerate(free)), "a kernel has no normal form")
        require(not any(dot(row, column) for row in m), "a kernel is wrong")
    pivots = sorted(set(range(n)) - set(free))
    factor, e = integers([numbers(row) for row in items(given, len(pivots))])
    margins = [m[p][p] * e * e - d * dot(row, row) for p, row in zip(pivots, factor, strict=True)]
    for i, p in enumerate(pivots):
        for j in range(i):
            rest = abs(m[p][pivots[j]] * e * e - d * dot(factor[i], factor[j]))
            margins[i] -= rest
            margins[j] -= rest
    require(all(margin > 0 for margin in margins), "a matrix is not proved positive semidefinite")
    return columns


def polar(block: Block, f: list[Fraction], face: Any, proof: Any) -> Any:
    """Rule 2: check that ``f <= 0`` on a face of a cone; return the smaller face where ``f = 0``.

    A face is a list of positions (Nonneg), of columns ``V`` with ``X = V S V'``, or None for the whole cone.
    """
    if block.cone != "PSD":
        alive = range(block.size) if face is None else face
        holds = not any(f) if block.cone == "Free" else all(f[k] <= 0 for k in alive)
        require(proof is None and holds, "a functional is positive on a block")
        return [k for k in alive if f[k] == 0]
    m = block.square([-v for v in f])
    if face is None:
        return semidefinite(m, proof)
    kernel = semidefinite(products(face, products(face, m)), proof)
    return products(kernel, list(zip(*face, strict=True)))


class Problem:
    """Cones, rows with bounds, LMIs and an objective.

    A row is a list of pieces: (scale, positions, integers), or (scale, first position, ``v``) for ``v v'``.
    """

    def __init__(self, data: Any) -> None:
        form, sets, rows, lmis, objective = fields(data, ("format", "sets", "rows"), lmis=[], objective=None)
        require(form == "sdpfeas problem 1", "the format of the problem is unknown")
        self.sets = [Block(spec) for spec in items(sets)]
        self.starts = list(accumulate((block.size for block in self.sets), initial=0))
        require(self.starts[-1] <= MOST_ENTRIES, "the problem is too large")
        parts = [fields(row, ("lower", "upper", "blocks")) for row in items(rows)]
        self.bounds = [tuple(None if v is None else number(v) for v in ends) for *ends, _ in parts]
        self.rows = [self.row(blocks) for _, _, blocks in parts]
        self.lmis: list[tuple[Block, Any, Any]] = []
        for lmi in items(lmis):
            self.add_lmi(*fields(lmi, ("set", "constant", "coefficients")))
        for block, start in zip(self.sets, self.starts, strict=False):
            if block.box:
                self.add_box(block, {}, {start + k: {k: Fraction(w)} for k, w in enumerate(block.weights())})
                if block.trace is not None:
                    self.rows.append([(Fraction(1), [start + k for k in block.diagonal], [1] * block.n)])
                    self.bounds.append((block.trace, block.trace))
        self.has_objective = objective is not None
        objective = objective if self.has_objective else {"sense": "min", "constant": 0, "blocks": []}
        self.sense, constant, blocks = fields(objective, ("sense", "constant", "blocks"))
        require(self.sense in ("min", "max"), "the sense is unknown")
        self.constant, self.objective = number(constant), self.row(blocks)

    def row(self, parts: Any) -> list[tuple[Fraction, Any, list[int]]]:
        """Read a functional: sparse entries on every block, and terms [w, v] for ``w v v'``."""
        out: list[tuple[Fraction, Any, list[int]]] = []
        last = -1
        for part in items(parts):
            b, entries, terms = fields(part, ("block",), entries=[], terms=[])
            block, start = self.sets[index(b, len(self.sets))], self.starts[b]
            require(b > last, "the blocks of a row are not in order")
            last = b
            found = block.functional(entries)
            (values,), d = integers([list(found.values())])
            out.append((Fraction(1, d), [start + k for k in found], values))
            for term in items(terms):
                require(block.kind in ("PSD", "SpectralBox"), "terms are for symmetric matrices")
                (values,), d = integers([numbers(items(term, 2)[1], block.n)])
                out.append((number(term[0]) / (d * d), start, values))
        return out

    def add_lmi(self, spec: Any, constant: Any, coefficients: Any) -> None:
        """Read ``F(X) = F_0 + sum_k x_k B_k`` in a set, with ``F_0`` and all ``B_k`` as functionals."""
        block, parts, seen = Block(spec), dict[int, Any](), set()
        for part in map(items, items(coefficients)):
            require(len(part) > 2 and repr(part[:-1]) not in seen, "a coefficient is malformed or repeated")
            seen.add(repr(part[:-1]))
            b, found = index(part[0], len(self.sets)), block.functional(part[-1])
            for k, times in self.sets[b].functional([[*part[1:-1], 1]]).items():
                own = parts.setdefault(self.starts[b] + k, defaultdict(Fraction))
                for place, v in found.items():
                    own[place] += times * v
        if block.box:
            require(block.trace is None, "the set of an LMI has no trace")
            self.add_box(block, block.functional(constant), parts)
        else:
            require(block.kind in ("PSD", "Nonneg"), "the set of an LMI is unknown")
            self.lmis.append((block, block.functional(constant), parts))

    def add_box(self, box: Block, constant: Any, parts: Any) -> None:
        """Add ``F - lower I >= 0`` and ``upper I - F >= 0``."""
        for sign, end in ((1, -box.lower), (-1, box.upper)):
            moved = defaultdict(Fraction, {k: sign * v for k, v in constant.items()})
            for k in box.diagonal:
                moved[k] += end
            scaled = {c: {k: sign * v for k, v in part.items()} for c, part in parts.items()}
            self.lmis.append((Block({"kind": "PSD", "n": box.n}), moved, scaled))


def pairs(where: Any, v: list[int]) -> Any:
    """Return positions and coefficients of a piece of a row, without its scale."""
    if type(where) is list:
        return zip(where, v, strict=True)
    values = (a * b * (1 + (i != j)) for i, a in enumerate(v) for j, b in enumerate(v[: i + 1]))
    return enumerate(values, where)


def primal(problem: Problem, data: Any) -> Fraction:
    """Rule 3: check that a point is feasible (the cones are self-dual); return its objective."""
    point, proofs, lmi_proofs = fields(data, ("point", "sets", "lmis"))
    blocks = list(zip(problem.sets, items(point, len(problem.sets)), strict=True))
    (x,), d = integers([[v for block, part in blocks for v in numbers(part, block.size)]])
    for block, start, proof in zip(problem.sets, problem.starts, items(proofs, len(blocks)), strict=False):
        own = zip(block.weights(), x[start : start + block.size], strict=True)
        polar(block, [Fraction(-w * v * (block.cone != "Free"), d) for w, v in own], None, proof)

    def value(row: Any) -> Fraction:
        return sum((s * sum(x[k] * a for k, a in pairs(where, v)) for s, where, v in row), Fraction(0)) / d

    for i, (row, (lower, upper)) in enumerate(zip(problem.rows, problem.bounds, strict=True)):
        v = value(row)
        require((lower is None or lower <= v) and (upper is None or v <= upper), f"row {i} is violated")
    lmis = zip(problem.lmis, items(lmi_proofs, len(problem.lmis)), strict=True)
    for (block, constant, parts), proof in lmis:
        total = [constant.get(k, Fraction(0)) for k in range(block.size)]
        for c, part in parts.items():
            for k, a in part.items():
                total[k] += a * x[c] / d
        polar(block, [-v for v in total], None, proof)
    return problem.constant + value(problem.objective)


def dual(problem: Problem, data: Any, faces: Any, bounds: Any, objective: Any) -> tuple[Any, Any, Any]:
    """Rule 4: return ``v`` with ``objective(X) >= v`` at all feasible ``X``.

    If ``v = 0`` without an objective (Rule 5), the faces and bounds returned hold at all feasible ``X``.
    """
    y, given, proofs, lmi_proofs = fields(data, ("rows", "multipliers", "sets", "lmis"))
    total, tight, rows = Fraction(0), list(bounds), [(-s, where, v) for s, where, v in objective]
    for i, weight in enumerate(numbers(y, len(bounds))):
        if weight != 0:
            bound = bounds[i][weight < 0]
            require(bound is not None, f"the multiplier of row {i} has the sign of a missing bound")
            total += weight * bound
            tight[i] = (bound, bound)
            rows += [(weight * s, where, v) for s, where, v in problem.rows[i]]
    (scales,), d = integers([[s for s, _, _ in rows]])
    g = [0] * problem.starts[-1]
    for scale, (_, where, v) in zip(scales, rows, strict=True):
        for k, a in pairs(where, v):
            g[k] += scale * a
    gradient, after = [Fraction(v, d) for v in g], []
    multipliers, lmi_proofs = (items(part, len(problem.lmis)) for part in (given, lmi_proofs))
    for j, (block, constant, parts) in enumerate(problem.lmis):
        w = numbers(multipliers[j], block.size)
        total -= sum(a * w[k] for k, a in constant.items())
        for c, part in parts.items():
            gradient[c] += sum(a * w[k] for k, a in part.items())
        f = [-v * times for v, times in zip(w, block.weights(), strict=True)]
        after.append(polar(block, f, faces[len(problem.sets) + j], lmi_proofs[j]))
    for b, (block, start) in enumerate(zip(problem.sets, problem.starts, strict=False)):
        own = items(proofs, len(problem.sets))[b]
        after.insert(b, polar(block, gradient[start : start + block.size], faces[b], own))
    return total, after, tight


def digest(problem: Any) -> str:
    """Return the SHA-256 of the canonical JSON of a problem."""
    return hashlib.sha256(json.dumps(problem, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def check(data: Any, evidence: Any) -> str:
    """Return what evidence proves about a problem, or raise ``Refused``."""
    keys = ("lower", "upper") if type(evidence) is dict and evidence.get("kind") == "bracket" else ()
    names = ("format", "problem", "kind", *keys)
    form, about, kind, *ends, point, steps, last = fields(evidence, names, primal=None, steps=[], dual=None)
    require(form == "sdpfeas evidence 1", "the format of the evidence is unknown")
    named = digest(about) if type(about) is dict else about
    data = about if data is None else data
    require(digest(data) == named, "the evidence is about another problem")
    problem = Problem(data)
    faces, bounds = [None] * (len(problem.sets) + len(problem.lmis)), problem.bounds
    for step in items(steps):
        value, faces, bounds = dual(problem, step, faces, bounds, [])
        require(value == 0, "the two sides of a step of facial reduction differ")
    if kind == "feasible":
        require(steps == [] and last is None, "a point alone proves feasibility")
        primal(problem, point)
        return f"feasible: problem {named} has a solution"
    if kind == "infeasible":
        require(point is None, "multipliers alone prove infeasibility")
        require(dual(problem, last, faces, bounds, [])[0] > 0, "the certificate does not separate")
        return f"infeasible: problem {named} has no solution"
    require(kind == "bracket" and problem.has_objective, "the kind is unknown, or there is no objective")
    sign = 1 if problem.sense == "min" else -1
    outer, inner = ends[::sign]
    ends_given, parts_given = (inner is None, outer is None), (point is None, last is None)
    require(ends_given == parts_given != (True, True), "an end is missing")
    if point is not None:
        require(sign * primal(problem, point) <= sign * number(inner), "the point does not attain its end")
    if last is not None:
        objective = [(sign * s, where, v) for s, where, v in problem.objective]
        value = dual(problem, last, faces, bounds, objective)[0] + sign * problem.constant
        require(value >= sign * number(outer), "the multipliers do not prove their end")
    return f"bracket: {ends[0]} <= {problem.sense} <= {ends[1]} in problem {named}"


def unique(keys: Any) -> Any:
    """Make an object of JSON; refuse a key that is given twice."""
    require(len({key for key, _ in keys}) == len(keys), "a key is given twice")
    return dict(keys)


def load(path: str) -> Any:
    """Read JSON without duplicate keys, decimal fractions, NaN or infinity."""
    with open(path, encoding="utf-8") as file:  # noqa: PTH123
        return json.load(file, object_pairs_hook=unique, parse_float=items, parse_constant=items)


def main(paths: list[str]) -> int:
    """Check files: return 0 if the evidence is valid, 1 if it is refused."""
    try:
        require(len(paths) in (1, 2), "usage: python sdpcheck.py [PROBLEM] EVIDENCE")
        *problem, evidence = map(load, paths)
        print("VALID", check(problem[0] if problem else None, evidence))
    except (ValueError, RecursionError, OSError, MemoryError) as error:
        print("REFUSED", str(error) or "there is not enough memory")
        return 1
    return 0


if __name__ == "__main__":
    with suppress(ImportError, ValueError, OSError):  # the system may have no limits, or lower ones
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    sys.exit(main(sys.argv[1:]))
