"""Every table and figure of the paper, as rows (methods), columns (tasks) and numbers of splits.

``TARGETS`` lists them in the order of the paper. ``waveform``, ``letters`` and ``umist`` are ours: they vary
what the paper leaves open about a data set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import sdpfeas as sf
from benchmarks.paper.methods import METHODS
from benchmarks.paper.protocol import PREPROCESSINGS, Task

__all__ = ["TARGETS", "Column", "Target", "find_targets"]

#: Time limit of a cell, in seconds.
LIMIT = 300.0

#: With ``--quick``: most splits, and time limit of a cell in seconds.
QUICK_SPLITS, QUICK_LIMIT = 2, 5.0


@dataclass(frozen=True)
class Column:
    """A column of a table, or a point on the horizontal axis of a figure.

    Attributes
    ----------
    key : str
        Key in published.toml.
    title : str
        Head of the column.
    task : Task
        Data and preprocessing.
    runs : int
        Number of splits.
    fewer : mapping
        Numbers of splits of methods that are too slow for all of them.
    panel : str
        For a figure, its panel.
    x : float
        For a figure, its position on the horizontal axis.
    """

    key: str
    title: str
    task: Task
    runs: int
    fewer: Mapping[str, int] = field(default_factory=dict)
    panel: str = ""
    x: float = 0.0

    def splits(self, method: str) -> int:
        """Number of splits of a method."""
        return 1 if METHODS[method].time_only else min(self.runs, self.fewer.get(method, self.runs))


@dataclass(frozen=True)
class Target:
    """A table or a figure.

    Attributes
    ----------
    name : str
        Name on the command line and in published.toml.
    title : str
        What it shows.
    methods : tuple of str
        Its rows, keys of ``METHODS``.
    columns : tuple of Column
        Its columns.
    kind : str
        ``"table"``, or what a figure shows: ``"error"``, ``"time"`` or ``"picture"`` (projected samples).
    axis : str
        For a figure, the label of its horizontal axis.
    beside : str
        Published table to compare with, if not the one of the same name.
    """

    name: str
    title: str
    methods: tuple[str, ...]
    columns: tuple[Column, ...]
    kind: str = "table"
    axis: str = ""
    beside: str = ""

    def quick(self) -> Target:
        """Reduce to two splits and, of the columns of each data set, to the first and the last."""
        groups: dict[tuple[str, str], list[Column]] = {}
        for column in self.columns:
            groups.setdefault((column.panel, column.task.dataset), []).append(column)
        ends = {id(column) for group in groups.values() for column in (group[0], group[-1])}
        columns = [replace(c, runs=min(c.runs, QUICK_SPLITS)) for c in self.columns if id(c) in ends]
        return replace(self, columns=tuple(columns))

    def only(self, methods: Sequence[str]) -> Target:
        """Keep only these methods."""
        return replace(self, methods=tuple(name for name in self.methods if name in methods))

    def about(self, datasets: Sequence[str]) -> Target:
        """Keep only the columns of these data sets."""
        return replace(self, columns=tuple(c for c in self.columns if c.task.dataset in datasets))

    def limited(self, splits: int) -> Target:
        """Limit the number of splits."""
        return replace(self, columns=tuple(replace(c, runs=min(c.runs, splits)) for c in self.columns))


_OURS = ("wlda", "wlda-refined", "wlda-shrunk")
_ALL = ("euclidean", "lda", "lmnn", "olda", "zhang-sdp", "zhang-socp", "sd-wlda", *_OURS)
_PRIMAL = ("primal-clarabel", "primal-scs")


def _unless(value: int, usual: int) -> int | None:
    """None for a task's default, so that tables share the cell."""
    return None if value == usual else value


def _uci(name: str, title: str) -> Column:
    return Column(name, title, Task(name), 30)


def _images(
    key: str,
    title: str,
    dataset: str,
    share: float,
    pca: int,
    runs: int,
    first: int = 0,
    count: int | None = None,
) -> Column:
    return Column(key, title, Task(dataset, share, True, first, count, pca=pca), runs)


_TABLE1 = (
    replace(_uci("heart", "Heart"), fewer={"sd-wlda": 10}),
    replace(_uci("waveform", "Waveform"), fewer={"lmnn": 3}),
    _uci("iris", "Iris"),
    _uci("balance", "Balance"),
    _uci("sonar", "Sonar"),
    _uci("ionosphere", "Ionosphere"),
)

#: Methods that take minutes per split with 40 classes.
_SLOW = ("zhang-socp", "sd-wlda", "wlda-refined")

_TABLE3 = (
    replace(_images("orl", "ORL", "orl", 0.7, 100, 5), fewer=dict.fromkeys(_SLOW, 1)),
    _images("yale", "Yale", "yale", 0.7, 50, 10),
    _images("pie", "PIE", "pie", 0.8, 60, 5, 0, 40),
    _images("umist", "UMist", "umist", 0.3, 100, 10),
    replace(_images("coil20", "Coil20", "coil20", 0.4, 100, 10), fewer={"zhang-socp": 1}),
    _images("coil30", "Coil30", "coil30", 0.5, 80, 5),
    _images("aloi", "ALOI", "aloi", 0.5, 100, 5),
    _images("ba1", "BA1", "alphadigits", 0.3, 80, 10, 0, 10),
    _images("ba2", "BA2", "alphadigits", 0.3, 80, 10, 10, 15),
)

_YALE = Task("yale", 0.7, True, pca=50)


def _by_classes(
    dataset: str, share: float, counts: tuple[int, ...], runs: int, fewer: Mapping[str, int] | None = None
) -> tuple[Column, ...]:
    return tuple(
        Column(str(c), f"c = {c}", Task(dataset, share, True, 0, c, pca=60), runs, fewer or {})
        for c in counts
    )


def _ratios() -> tuple[Column, ...]:
    return tuple(
        Column(f"{dataset}-{k}0", f"{title} {k}0 %", Task(dataset, k / 10), 10, panel=title, x=10.0 * k)
        for dataset, title in (("sonar", "Sonar"), ("ionosphere", "Ionosphere"))
        for k in range(2, 9)
    )


def _growing() -> tuple[Column, ...]:
    slow = dict.fromkeys(("zhang-sdp", "zhang-socp", "sd-wlda"), 1)
    classes = [
        Column(
            f"c{c}",
            f"c = {c}",
            replace(_YALE, classes=_unless(c, 15)),
            10,
            slow,
            "classes (50 dimensions)",
            c,
        )
        for c in (9, 11, 13, 15)
    ]
    dimensions = [
        Column(f"d{d}", f"d = {d}", replace(_YALE, pca=d), 10, slow, "dimension (15 classes)", d)
        for d in (30, 50, 70, 90, 115)
    ]
    return (*classes, *dimensions)


def _waveforms() -> tuple[Column, ...]:
    wave = Task("waveform")
    tasks = {
        **{f"{how}, 40 features": replace(wave, preprocessing=how) for how in PREPROCESSINGS},
        "none, 21 features": replace(wave, features=21),
        "standardised, 21 features": replace(wave, features=21, preprocessing="standardised"),
        "PCA to 2": replace(wave, pca=2),
        "PCA to 10": replace(wave, pca=10),
        "PCA to 20": replace(wave, pca=20),
    }
    return tuple(Column("waveform", title, task, 10) for title, task in tasks.items())


def _letters() -> tuple[Column, ...]:
    ranges = {"A–O": 10, "F–T": 15, "L–Z": 21}
    return tuple(
        _images("ba2", title, "alphadigits", 0.3, 80, 10, first, 15) for title, first in ranges.items()
    )


def _photographs() -> tuple[Column, ...]:
    # Our file has 19 photographs per person. The paper's has more of some, and 174 training samples in all.
    return tuple(
        _images("umist", f"{count} per person", "umist", share, 100, 10)
        for count, share in ((6, 0.3), (9, 0.45))
    )


def _pictures() -> tuple[Column, ...]:
    def column(key: str, title: str, dataset: str, first: int, classes: int, pca: int) -> Column:
        task = Task(dataset, 1.0, first_class=first, classes=classes, pca=pca, components=2)
        return Column(key, title, task, 1)

    return (
        column("yale", "Yale, classes 5–9", "yale", 4, 5, 50),
        column("aloi", "ALOI, classes 10–14", "aloi", 9, 5, 100),
        column("coil20", "Coil20, classes 1–10", "coil20", 0, 10, 50),
        column("ba1", "BA1, digits 3–5", "alphadigits", 3, 3, 80),
    )


TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        Target("table1", "UCI data, 5-NN, r = c - 1", (*_ALL, *_PRIMAL), _TABLE1),
        Target(
            "table2",
            "Heart, by final dimension",
            ("sd-wlda", *_OURS),
            tuple(
                Column(str(r), f"r = {r}", Task("heart", components=_unless(r, 4)), 10)
                for r in (4, 6, 7, 8, 9)
            ),
        ),
        Target("table3", "faces, objects and letters, 5-NN, r = c - 1", (*_ALL, *_PRIMAL), _TABLE3),
        Target(
            "table4",
            "Yale, 800 principal components asked for",
            ("lda", "zhang-sdp", "zhang-socp", "sd-wlda", *_OURS),
            (Column("yale", "Yale", replace(_YALE, pca=800), 10),),
        ),
        Target(
            "table5",
            "ORL, by number of classes",
            ("lda", "sd-wlda", *_OURS),
            _by_classes("orl", 0.5, (5, 10, 20, 25, 30, 35, 40), 5, {"sd-wlda": 2, "wlda-refined": 1}),
        ),
        Target(
            "table6",
            "Coil20, by number of classes",
            ("lda", "sd-wlda", *_OURS),
            _by_classes("coil20", 0.4, (5, 8, 11, 14, 17, 20), 10),
        ),
        Target(
            "fig1",
            "error by share of training samples",
            ("lda", *_OURS),
            _ratios(),
            "error",
            "training samples, %",
        ),
        Target(
            "fig2",
            "time by number of classes and by dimension, Yale",
            ("zhang-sdp", "zhang-socp", "sd-wlda", "wlda"),
            _growing(),
            "time",
            "",
        ),
        Target(
            "fig3",
            "error by final dimension, Yale",
            ("lda", "wlda", "wlda-shrunk"),
            tuple(
                Column(f"r{r}", f"r = {r}", replace(_YALE, components=_unless(r, 14)), 10, panel="Yale", x=r)
                for r in range(1, 15)
            ),
            "error",
            "final dimension",
        ),
        Target(
            "visual", "projections to two dimensions", ("pca", "lda", "olda", "wlda"), _pictures(), "picture"
        ),
        Target(
            "waveform",
            "Waveform under other preprocessings",
            ("euclidean", "lda", "olda", "wlda", "wlda-refined"),
            _waveforms(),
            beside="table1",
        ),
        Target(
            "letters",
            "BA2 with other letters",
            ("euclidean", "lda", "lmnn", "olda", "wlda"),
            _letters(),
            beside="table3",
        ),
        Target(
            "umist",
            "UMist with more photographs to train on",
            ("euclidean", "lda", "lmnn", "olda", "wlda"),
            _photographs(),
            beside="table3",
        ),
    )
}


def find_targets(name: str) -> list[Target]:
    """Look up a table or figure by name, or ``all`` of them; raises OptionError for an unknown name."""
    if name == "all":
        return list(TARGETS.values())
    if name not in TARGETS:
        raise sf.OptionError(f"no table or figure is called {name!r}; known: {', '.join(TARGETS)}, all")
    return [TARGETS[name]]
