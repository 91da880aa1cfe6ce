"""Read labelled samples from CSV, NPZ and Parquet files; write Markdown and CSV tables.

:func:`read_samples` checks sizes against the read limit (:mod:`sdpfeas.files`) before memory is allocated.
"""

from __future__ import annotations

import csv
import io
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from sdpfeas.errors import FileFormatError, OptionError
from sdpfeas.escaping import escape_csv
from sdpfeas.extras import extra
from sdpfeas.files import read_file, require_within_limit
from sdpfeas.npz import UNREADABLE, unpack_arrays
from sdpfeas.numerics.linalg import FloatArray
from sdpfeas.problem.validation import float_array

#: An unescaped bar, which would end a cell of a Markdown table.
BAR = re.compile(r"(?<!\\)\|")


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: bool = True) -> list[str]:
    """Return the lines of an aligned Markdown table.

    Cells are Markdown: untrusted text must pass :func:`sdpfeas.escaping.escape_markdown` first. With
    ``numbers``, all columns but the first are aligned to the right.
    """
    lines = [[BAR.sub(r"\\|", cell) for cell in line] for line in (head, *rows)]
    widths = [max(3, *(len(line[k]) for line in lines)) for k in range(len(head))]
    right = [numbers and k > 0 for k in range(len(head))]
    texts = [
        " | ".join(
            cell.rjust(w) if r else cell.ljust(w) for cell, w, r in zip(line, widths, right, strict=True)
        )
        for line in lines
    ]
    rule = "|".join("-" * (w + 1) + (":" if r else "-") for w, r in zip(widths, right, strict=True))
    return [f"| {texts[0]} |", f"|{rule}|", *(f"| {text} |" for text in texts[1:])]


def csv_table(columns: Sequence[str], records: Iterable[Mapping[str, Any]]) -> str:
    """Return the named columns of records as CSV text, escaped against formulas in spreadsheets."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([escape_csv(record[name]) for name in columns] for record in records)
    return text.getvalue()


#: Bytes counted against the read limit per byte of CSV: an empty column becomes one number.
BYTES_PER_CSV_BYTE = 8

#: Characters used to detect the separator, and the separators tried.
SNIFFED_CHARACTERS = 65_536
SEPARATORS = (",", ";", "\t", "|")

#: A column with more distinct numbers than this, each less than three times on average, is not a label.
MAX_NUMERIC_LABELS = 20

#: Names of a first column that numbers the rows.
INDEX_NAMES = ("", "id", "index", "no", "obs", "row", "rownames", "unnamed: 0")

#: NumPy kinds of label arrays: numbers and text.
LABEL_KINDS = "biufUS"


@dataclass(frozen=True)
class Samples:
    """Labelled samples."""

    X: FloatArray
    y: np.ndarray
    features: tuple[str, ...]


def read_samples(path: Path, label: str | None = None) -> Samples:
    """Read labelled samples from a ``.csv``, ``.npz`` (arrays X and y) or ``.parquet`` file.

    A CSV file may have a header. ``label`` is the column of the labels, by name or by number from 1; the last
    one by default. Raises ``FileFormatError`` for a malformed file, with row and column, and ``OptionError``
    for an unknown column.
    """
    if not path.is_file():
        raise FileFormatError(f"{path}: no such file")
    readers = {".npz": _read_npz, ".parquet": _read_parquet, ".csv": _read_csv}
    read = readers.get({".txt": ".csv", ".data": ".csv"}.get(path.suffix, path.suffix))
    if read is None:
        raise FileFormatError(f"{path}: samples are read from .csv, .npz or .parquet")
    try:
        return read(path, label)
    except FileFormatError as error:
        raise FileFormatError(f"{path}: {error}") from None
    except OptionError as error:
        raise OptionError(f"{path}: {error}") from None


def _label_column(names: Sequence[str], label: str | None) -> int:
    if len(names) < 2:
        raise FileFormatError("one column of labels and at least one of features is needed")
    if label is None:
        return len(names) - 1
    if label in names:
        return names.index(label)
    if label.isdecimal() and 1 <= int(label) <= len(names):
        return int(label) - 1
    raise OptionError(f"there is no column {label!r}; columns: {', '.join(names[:12])}")


def _labels(values: Sequence[Any]) -> np.ndarray:
    """Convert labels to an array, in which each takes the memory of the longest."""
    longest = max((len(value) for value in values if isinstance(value, str)), default=0)
    require_within_limit(len(values) * longest, "characters of labels", each=4)
    return _checked_labels(np.array(values))


def _checked_labels(y: np.ndarray) -> np.ndarray:
    if y.ndim != 1 or y.dtype.kind not in LABEL_KINDS:
        raise FileFormatError(f"labels are numbers or text, one per sample; got {y.dtype} of shape {y.shape}")
    return y


def _not_a_number(sample: int, column: str, value: Any) -> FileFormatError:
    return FileFormatError(f"sample {sample}, column {column}: not a number: {value!r:.80}")


def _read_npz(path: Path, label: str | None) -> Samples:
    try:
        found = unpack_arrays(read_file(path), ("X", "y"))
        X, y = float_array(found["X"], "X"), found["y"]
    except UNREADABLE as error:
        raise FileFormatError(f"no arrays X and y could be read: {error}") from None
    if X.ndim != 2 or y.shape != X.shape[:1]:
        raise FileFormatError(f"X has shape {X.shape} and y {y.shape}; one label per row of X is needed")
    return Samples(X, _checked_labels(y), tuple(f"x{k + 1}" for k in range(X.shape[1])))


def _read_csv(path: Path, label: str | None) -> Samples:
    require_within_limit(path.stat().st_size, "bytes of CSV", each=BYTES_PER_CSV_BYTE)
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            separator = _separator(file.read(SNIFFED_CHARACTERS))
            file.seek(0)
            return _from_rows((row for row in csv.reader(file, delimiter=separator) if row), label)
    except (UnicodeDecodeError, csv.Error) as error:
        raise FileFormatError(f"not a CSV file: {error}") from None


def _separator(text: str) -> str:
    """Detect the separator: the first one that gives all lines the same number of columns, or a comma."""
    lines = [line for line in text.splitlines()[:20] if line.strip()]
    lines = lines[:-1] if len(lines) > 2 else lines  # the last may be incomplete
    for separator in SEPARATORS:
        counts = {len(row) for row in csv.reader(lines, delimiter=separator)}
        if len(counts) == 1 and counts.pop() > 1:
            return separator
    return ","


def _from_rows(rows: Iterator[list[str]], label: str | None) -> Samples:
    first, second = next(rows, None), next(rows, None)
    if first is None or second is None:
        raise FileFormatError("at least two samples are needed")
    # A first row in which no entry is a number is a header.
    headed = not any(_is_number(entry) for entry in first)
    names = [entry.strip() if headed else f"x{k + 1}" for k, entry in enumerate(first)]
    at = _label_column(names, label)
    features = [name for k, name in enumerate(names) if k != at]
    labels, numbers = [], array("d")
    for number, row in enumerate(chain([list(first), second], rows), 1):
        if len(row) != len(names):
            raise FileFormatError(f"row {number} has {len(row)} columns, the first has {len(names)}")
        if number == 1 and headed:
            continue
        labels.append(row.pop(at).strip())
        try:
            numbers.extend(map(float, row))
        except ValueError:
            k = next(k for k, entry in enumerate(row) if not _is_number(entry))
            raise _not_a_number(number - headed, features[k], row[k].strip()) from None
    X = np.frombuffer(numbers, dtype=np.float64).reshape(len(labels), len(features))
    if label is None:
        _require_classes(labels, names[at])
    if headed and at > 0 and len(features) > 1 and _counts_rows(names[0], X[:, 0]):
        X, features = X[:, 1:], features[1:]
    return Samples(X, _labels(labels), tuple(features))


def _counts_rows(name: str, values: FloatArray) -> bool:
    """Whether a first column numbers the rows, as spreadsheets and data frames write it."""
    steps = np.arange(values.size)
    return name.lower() in INDEX_NAMES and (
        np.array_equal(values, steps) or np.array_equal(values, steps + 1)
    )


def _require_classes(labels: Sequence[str], name: str) -> None:
    """Raise an error if the default label column looks like a continuous number."""
    different = set(labels)
    numbers = sum(map(_is_number, different))
    if numbers > MAX_NUMERIC_LABELS and 3 * len(different) > len(labels):
        raise FileFormatError(
            f"column {name} holds {len(different)} different numbers and looks continuous; "
            "name the column of the labels (--label), this one or another"
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _read_parquet(path: Path, label: str | None) -> Samples:
    with extra("parquet", "a Parquet file"):
        import pyarrow as pa
        from pyarrow import parquet
    try:
        with parquet.ParquetFile(path) as file:
            names, groups = file.schema_arrow.names, file.metadata
            # Not column by column: pyarrow ends the process on damaged columns.
            groups = [groups.row_group(k) for k in range(groups.num_row_groups)]
            require_within_limit(sum(group.num_rows for group in groups) * len(names), "numbers", each=8)
            require_within_limit(sum(group.total_byte_size for group in groups), "bytes of columns")
        at = _label_column(names, label)
        # A dictionary stores repeated text once.
        table = parquet.read_table(path, read_dictionary=names)
        table.validate(full=True)
        features = [name for k, name in enumerate(names) if k != at]
        X = np.empty((table.num_rows, len(features)))
        for place, name in enumerate(features):
            X[:, place] = _column(table.column(names.index(name)), name)
        return Samples(X, _labels(_values(table.column(at))), tuple(features))
    except (FileFormatError, OptionError):
        raise
    except (pa.ArrowException, *UNREADABLE) as error:
        raise FileFormatError(f"not a Parquet file: {error}") from None


def _column(column: Any, name: str) -> FloatArray:
    """Convert a column to doubles."""
    if column.null_count == 0 and str(column.type) in ("double", "float", "int64", "int32"):
        return np.asarray(column.to_numpy(), dtype=np.float64)
    out = np.empty(len(column))
    for k, value in enumerate(_values(column)):
        try:
            out[k] = float(value)
        except (TypeError, ValueError):
            raise _not_a_number(k + 1, name, value) from None
    return out


def _values(column: Any) -> list[Any]:
    """Return the values of a column; equal texts are one object."""
    out: list[Any] = []
    for chunk in column.chunks:
        if hasattr(chunk, "dictionary"):
            words = chunk.dictionary.to_pylist()
            out += [None if k is None else words[k] for k in chunk.indices.to_pylist()]
        else:
            out += chunk.to_pylist()
    return out
