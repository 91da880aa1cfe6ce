"""The data file of published figures: complete, and as the paper prints them."""

import math

import pytest

from benchmarks.paper.methods import METHODS
from benchmarks.paper.summary import parse_time, published, published_error, published_time
from benchmarks.paper.targets import TARGETS
from sdpfeas.errors import FileFormatError

UCI = ("iris", "heart", "waveform", "balance", "sonar", "ionosphere")
IMAGES = ("orl", "yale", "ba1", "ba2")


@pytest.mark.parametrize(
    ("table", "method", "columns", "means"),
    [
        ("table1", "sd-wlda", UCI, (2.89, 35.57, 15.47, 10.80, 26.94, 15.43)),
        ("table1", "lda", UCI, (3.19, 36.10, 15.60, 10.88, 27.10, 15.43)),
        ("table3", "sd-wlda", IMAGES, (1.83, 18.44, 16.22, 21.58)),
        ("table3", "lda", IMAGES, (3.00, 19.78, 18.07, 22.62)),
        ("table2", "sd-wlda", ("4", "6", "7", "8", "9"), (32.84, 28.41, 28.41, 31.82, 34.09)),
        ("table4", "sd-wlda", ("yale",), (16.00,)),
        (
            "table5",
            "sd-wlda",
            ("5", "10", "20", "25", "30", "35", "40"),
            (2.22, 4.00, 5.50, 5.12, 3.87, 4.57, 3.00),
        ),
    ],
)
def test_errors_are_those_known_from_elsewhere(table, method, columns, means):
    found = [published_error(table, method, column) for column in columns]
    assert tuple(error.mean for error in found) == means


@pytest.mark.parametrize(
    ("table", "columns", "seconds"),
    [
        ("table1", UCI, (0.4, 9.9, 3.0, 0.9, 3.9, 1.2)),
        ("table3", IMAGES, (274.0, 11.3, 28.3, 29.3)),
        ("table4", ("yale",), (2200.0,)),
    ],
)
def test_times_are_those_known_from_elsewhere(table, columns, seconds):
    found = [published_time(table, "sd-wlda", column) for column in columns]
    assert tuple(time.seconds for time in found) == seconds


def test_every_row_and_column_belongs_to_something_that_is_run():
    for name, table in published().items():
        keys = {column.key for column in TARGETS[name].columns}
        for what in ("error", "time"):
            for method, row in table.get(what, {}).items():
                assert method in METHODS or method in ("sdpt3", "sedumi")
                assert set(row) == keys, (name, what, method)


def test_means_and_deviations_are_plausible():
    for table in published().values():
        for row in table["error"].values():
            assert all(0 < deviation < mean + 3 and mean < 50 for mean, deviation in row.values())


def test_rows_the_paper_does_not_have_stand_beside_one_it_has():
    assert published_error("table1", "wlda-refined", "heart") == published_error("table1", "sd-wlda", "heart")
    assert published_time("table3", "primal-clarabel", "yale").seconds == 2 * 3600 + 41 * 60
    assert published_error("table1", "pca", "heart") is None
    assert published_error("fig1", "wlda", "sonar-20") is None


@pytest.mark.parametrize(
    ("text", "seconds", "bound"),
    [("9.9s", 9.9, False), ("1h4m", 3840.0, False), (">48h", 172800.0, True), ("36m40s", 2200.0, False)],
)
def test_parse_time(text, seconds, bound):
    found = parse_time(text)
    assert math.isclose(found.seconds, seconds)
    assert found.bound is bound


@pytest.mark.parametrize("text", ["", ">", "5", "h", "1h 4m", "x1s", "1d"])
def test_parse_time_refuses_what_is_no_time(text):
    with pytest.raises(FileFormatError, match="not a time"):
        parse_time(text)


def test_within_one_deviation_includes_its_end():
    printed = published_error("table1", "lda", "iris")
    assert printed.covers(3.19 + 1.62)
    assert printed.covers(3.19 - 1.62)
    assert not printed.covers(3.19 + 1.64)
