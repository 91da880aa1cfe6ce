"""The table of attained ratios."""

import pytest

pytest.importorskip("sklearn", minversion="1.6")

from benchmarks.paper.attained import dimensions, main


def test_no_method_attains_more_than_worst_case_lda_or_the_bound(capsys):
    main(data="wine,iris", competitors="lda,olda,zhang-socp,trace-ratio")
    lines = [line.split("|")[1:-1] for line in capsys.readouterr().out.splitlines()[2:]]
    assert [(line[0].strip(), int(line[2])) for line in lines] == [
        ("wine", 1),
        ("wine", 2),
        ("iris", 1),
        ("iris", 2),
    ]
    for line in lines:
        bound, attained = float(line[3]), float(line[4])
        assert line[-1].strip() == ""
        assert max(map(float, line[7:-1])) <= 1.001 * attained <= 1.002 * bound


def test_dimensions_contain_both_ends():
    assert dimensions(1) == [1]
    assert dimensions(39)[0] == 1
    assert dimensions(39)[-1] == 39
