"""Problem cards and data sets: found by name, refused with the file's name when they are wrong."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import sdpfeas as sf
from sdpfeas import datasets
from sdpfeas.datasets import DataError, dataset_names, load_dataset, prepared
from sdpfeas.errors import CardError
from sdpfeas.families import WLDA, ParametricFamily, Theta
from sdpfeas.families.problem_cards import ProblemCard, find_problem

ROOT = Path(__file__).parents[2]
CARDS = sorted((ROOT / "problems").glob("*.toml"))
HAS_SKLEARN = importlib.util.find_spec("sklearn") is not None
needs_sklearn = pytest.mark.skipif(not HAS_SKLEARN, reason="needs scikit-learn")


@pytest.fixture
def card(tmp_path, monkeypatch):
    """Write a card and find it again."""
    monkeypatch.chdir(tmp_path)

    def write(text, name="mine.toml"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    return write


# ---------------------------------------------------------------- finding


def test_a_card_is_found_by_path_and_by_name(card):
    path = card('family = "theta"\n[options]\nn = 7\n', "problems/seven.toml")
    for spec in (path, str(path), "problems/seven.toml", "seven"):
        found = find_problem(spec)
        assert found.name == "seven"
        assert found.family is Theta
        assert found.make().sets[0].n == 7
        assert found.text == path.read_text()
    assert find_problem(found) is found


def test_a_card_where_you_work_comes_after_a_shipped_one(card):
    path = card('family = "theta"\n', "problems/wlda-iris.toml")
    assert find_problem("wlda-iris").family is WLDA
    assert find_problem(path).family is Theta
    assert find_problem("./problems/wlda-iris.toml").family is Theta


def test_shipped_cards_and_built_in_families_are_found_from_anywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert find_problem("wlda-iris").family is WLDA
    assert find_problem("theta").family is Theta
    assert find_problem("lyapunov").family.name == "lyapunov"


@pytest.mark.parametrize("path", CARDS, ids=lambda path: path.stem)
def test_shipped_cards_are_well_formed(path):
    found = find_problem(path)
    assert found.description
    members = list(found.members())
    assert members
    assert len({member.label for member in members}) == len(members)


@needs_sklearn
@pytest.mark.parametrize(
    "name", ["wlda-iris", "wlda-wine", "theta-cycle", "planted-mixed", "joint-spectral-radius"]
)
def test_shipped_cards_can_be_built(name):
    for member in find_problem(name).members():
        made = member.build(0)
        assert isinstance(made, (sf.FeasibilityProblem, ParametricFamily))


@pytest.mark.usefixtures("data_dir")
@pytest.mark.parametrize("name", ["wlda-yale", "wlda-uci", "wlda-alphadigits-letters"])
def test_cards_on_files_can_be_built(name):
    for member in find_problem(name).members():
        assert isinstance(member.build(1), WLDA)


def test_drop_in_families_are_found(card):
    source = (ROOT / "problems" / "correlation.py").read_text()
    path = card(source, "problems/stranger.py")
    with pytest.raises(CardError, match=r"use \./problems/stranger\.py"):
        find_problem("stranger")
    assert find_problem(path).make(n=4).sets[0].n == 4
    assert find_problem(path).family.name == "correlation"
    beside = card('family = "stranger"\n[options]\nn = 5\n', "problems/five.toml")
    assert find_problem(beside).make().sets[0].n == 5


@pytest.mark.parametrize("spec", ["wlda-irs", "no-such-problem"])
def test_unknown_names(spec):
    with pytest.raises(CardError, match=f"no problem named '{spec}'"):
        find_problem(spec)


def test_unknown_names_come_with_a_hint():
    with pytest.raises(CardError, match="did you mean 'wlda-iris'"):
        find_problem("wlda-irs")


# ---------------------------------------------------------------- members


def test_sweeps_multiply(card):
    path = card('family = "theta"\n[options]\ngraph = "random"\n[sweep]\nn = [5, 6]\np = [0.1, 0.9]\n')
    members = list(find_problem(path).members())
    assert [member.parameters for member in members] == [{"n": n, "p": p} for n in (5, 6) for p in (0.1, 0.9)]
    assert members[0].label == "mine[n=5, p=0.1]"
    assert members[3].build(0).sets[0].n == 6
    assert members[0].origin == str(path)


def test_seeds_matter_where_something_is_drawn(card):
    drawn = next(find_problem(card('family = "theta"\n[options]\ngraph = "random"\nn = 9\n')).members())
    assert drawn.seeded
    assert drawn.build(1).at(1.5) != drawn.build(2).at(1.5)
    fixed = next(find_problem(card('family = "theta"\n[options]\ngraph = "random"\nseed = 3\n')).members())
    assert not fixed.seeded
    assert fixed.build(1).at(1.5) == fixed.build(2).at(1.5)
    assert not next(find_problem(card('family = "theta"\n')).members()).seeded


def test_delta_makes_a_problem(card):
    made = find_problem(card('family = "theta"\ndelta = 2\n')).make()
    assert isinstance(made, sf.FeasibilityProblem)
    assert made == Theta.make().at(2.0)
    swept = find_problem(card('family = "theta"\n[sweep]\ndelta = [1.5, 2.5]\n'))
    assert [member.build(0) for member in swept.members()] == [Theta.make().at(d) for d in (1.5, 2.5)]


def test_files(card, tmp_path, monkeypatch):
    problem = Theta.make().at(2.0)
    problem.save(tmp_path / "theta.npz")
    direct = find_problem(str(tmp_path / "theta.npz"))
    assert direct.name == "theta"
    assert direct.make() == problem
    named = find_problem(card('file = "theta.npz"\nname = "five"\n'))
    assert named.name == "five"
    assert named.make() == problem
    assert "sha256" in named.text
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (tmp_path / "theta.npz").rename(folder / "moved.npz")
    monkeypatch.setenv("SDPFEAS_DATA", str(folder))
    assert find_problem(card('file = "moved.npz"\n')).make() == problem


def test_sdpa_files(card, data_dir):
    found = find_problem(card('file = "sdplib/truss1.dat-s"\nside = "lmi"\n'))
    assert isinstance(found.make(), sf.FeasibilityProblem)
    assert isinstance(find_problem(str(data_dir / "sdplib" / "truss1.dat-s")), ProblemCard)


# ---------------------------------------------------------------- wrong cards


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("family = ", "Invalid value"),
        ("", "either family"),
        ('family = "theta"\nfile = "x.npz"', "either family"),
        ("family = 3", "family must be a string"),
        ('familly = "theta"', "did you mean 'family'"),
        ('family = "theta"\nnonsense = 1', "unknown key 'nonsense'"),
        ('family = "tetha"', "did you mean 'theta'"),
        ('family = "theta"\noptions = 3', "options must be a table"),
        ('family = "theta"\n[options]\nvertices = 3', "no option 'vertices'"),
        ('family = "theta"\n[options]\nn = "five"', "must be an integer"),
        ('family = "theta"\n[options]\nn = 2', "at least 3 vertices"),
        ('family = "theta"\n[options]\nn = 5\n[data]\nn = 5', "given in"),
        ('family = "theta"\n[sweep]\nn = 5', "must be a list"),
        ('family = "theta"\n[sweep]\nn = []', "must be a list"),
        ('family = "theta"\n[sweep]\nm = [5]', "not a parameter of family 'theta'"),
        ('family = "theta"\n[sweep]\nn = [5, 1]', "at least 3 vertices"),
        ('family = "theta"\n[sweep]\ndelta = ["x"]', "delta must be a number"),
        ('family = "theta"\ndelta = "x"', "delta must be a number"),
        ('family = "theta"\nside = "lmi"', "applies to a file"),
        ('family = "planted"\nfile = 3', "file must be a string"),
        ('file = "missing.npz"', "no file"),
        ('file = "missing.npz"\n[options]\nn = 1', "applies to a family"),
        ('file = "missing.npz"\nside = "left"', "'primal' or 'lmi'"),
    ],
)
def test_wrong_cards_name_their_file(card, text, message):
    path = card(text)
    with pytest.raises(CardError, match=message) as caught:
        find_problem(path)
    assert str(path) in str(caught.value)


def test_delta_of_a_plain_family(card):
    with pytest.raises(CardError, match="has no delta"):
        find_problem(card('family = "planted"\ndelta = 1.0\n')).make()


def test_what_is_no_problem(tmp_path):
    other = tmp_path / "problem.txt"
    other.write_text("x")
    for spec, message in (
        (3, "a problem is"),
        (other, "a problem is a .toml card"),
        (tmp_path / "x.toml", "no such"),
    ):
        with pytest.raises(CardError, match=message):
            find_problem(spec)


# ---------------------------------------------------------------- data sets


@needs_sklearn
@pytest.mark.parametrize(
    ("name", "shape", "classes"),
    [
        ("iris", (150, 4), 3),
        ("wine", (178, 13), 3),
        ("breast_cancer", (569, 30), 2),
        ("digits", (1797, 64), 10),
    ],
)
def test_bundled_data(name, shape, classes):
    data = load_dataset(name)
    assert data.X.shape == shape
    assert np.unique(data.y).size == classes


@pytest.mark.usefixtures("data_dir")
@pytest.mark.parametrize(
    ("name", "shape", "classes"),
    [
        ("sonar", (208, 60), 2),
        ("ionosphere", (351, 34), 2),
        ("balance", (625, 4), 3),
        ("heart", (294, 13), 5),
        ("waveform", (5000, 40), 3),
        ("orl", (400, 1024), 40),
        ("yale", (165, 1024), 15),
        ("alphadigits", (1404, 320), 36),
    ],
)
def test_data_files(name, shape, classes):
    data = load_dataset(name)
    assert data.X.shape == shape
    assert np.unique(data.y).size == classes
    assert data.source.startswith("/")


def test_unknown_data():
    with pytest.raises(DataError, match="known: "):
        load_dataset("irises")
    assert "heart" in dataset_names()


@pytest.mark.parametrize("name", ["yale", "heart", "sonar"])
def test_data_that_is_not_here(name, monkeypatch):
    monkeypatch.delenv("SDPFEAS_DATA", raising=False)

    def offline(*_, **__):
        raise OSError("no network")

    monkeypatch.setattr(datasets, "_sklearn_datasets", lambda _: {"fetch_openml": offline})
    with pytest.raises(DataError, match="SDPFEAS_DATA"):
        load_dataset(name)


def test_broken_data_files(tmp_path, monkeypatch):
    (tmp_path / "wlda").mkdir()
    (tmp_path / "wlda" / "sonar.data").write_text("1,2,x\n3,R\n")
    monkeypatch.setenv("SDPFEAS_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"sonar\.data"):
        load_dataset("sonar")


@needs_sklearn
def test_prepared_data():
    X, y = prepared("digits", classes=3, first_class=4, train=0.5, seed=1, pca=10)
    assert np.unique(y).tolist() == [4, 5, 6]
    assert X.shape[1] == 10
    again = prepared("digits", classes=3, first_class=4, train=0.5, seed=1, pca=10)[0]
    np.testing.assert_array_equal(X, again)
    assert not np.array_equal(X, prepared("digits", classes=3, first_class=4, train=0.5, seed=2, pca=10)[0])
    standard = prepared("wine", standardize=True)[0]
    np.testing.assert_allclose(standard.std(axis=0), 1.0)
    assert prepared("iris", pca=100)[0].shape[1] == 4


@needs_sklearn
@pytest.mark.parametrize(
    "parameters", [{"classes": 1}, {"classes": 9}, {"first_class": 2}, {"train": 0.0}, {"pca": 0}]
)
def test_bad_preparations(parameters):
    with pytest.raises(DataError):
        prepared("iris", **parameters)


def test_bounds_of_a_file_are_fractions_where_its_card_says_so(tmp_path: Path) -> None:
    bounds = [1.0 / 3, -np.inf], [1.0 - 2.0**-50, 2.0**-52]
    problem = sf.FeasibilityProblem([sf.Nonneg(2)], [np.eye(2)], *bounds)
    problem.save(tmp_path / "p.npz")
    halves = sf.FeasibilityProblem([sf.Nonneg(2)], [np.eye(2) / 2], *bounds)
    halves.save(tmp_path / "q.npz")

    def card(text: str) -> ProblemCard:
        (tmp_path / "card.toml").write_text(text)
        return find_problem(tmp_path / "card.toml")

    read = card('file = "p.npz"').make()
    rounded = card('file = "p.npz"\nbounds_denominator = 3').make()
    assert isinstance(read, sf.FeasibilityProblem)
    assert isinstance(rounded, sf.FeasibilityProblem)
    assert read.content_hash == problem.content_hash != rounded.content_hash
    assert (rounded.lower.tolist(), rounded.upper.tolist()) == ([1.0, -np.inf], [3.0, 0.0])
    assert rounded.apply((np.ones(2),)).tolist() == [3.0, 3.0]
    with pytest.raises(CardError, match="rows of integers"):
        card('file = "q.npz"\nbounds_denominator = 3').make()
    with pytest.raises(CardError, match="must be positive"):
        card('file = "p.npz"\nbounds_denominator = 0')
    with pytest.raises(CardError, match="bounds_denominator applies to a file"):
        card('family = "planted"\nbounds_denominator = 3')
