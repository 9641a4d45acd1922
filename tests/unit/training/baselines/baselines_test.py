"""Baselines beside scikit-learn's on rows that are read from the CSV, and where a run leaves them."""

import csv
import dataclasses
import io
import json
import pathlib
import re
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from sklearn import metrics
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge

from pipeline.data.dataset.selection import select
from pipeline.data.schema.feature_types import Categorical, Categories, Image, Label, Numeric, Text
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics import loading
from pipeline.training.baselines import baselines, table
from pipeline.training.baselines.baselines import Predictions, Subject
from pipeline.training.baselines.fits import on_one_thread
from pipeline.training.report.baselines import baselines_section, leaks, lines, losses
from pipeline.training.run import run
from tests.shared.parsed import parsed
from tests.shared.tiny_dataset import write_dataset

COLOURS = ("blue", "green", "red")
TABLE = Schema(
    name="table",
    features=(
        Numeric(name="size", missing="mark"),
        Numeric(name="count", number="int64"),
        Categorical(name="colour", vocabulary=COLOURS),
        Label(name="sold", classes=("no", "yes")),
    ),
)


def csv_of(count: int, *, seed: int) -> str:
    """Sizes are eighths, which float32 has exactly; some are missing."""
    draw = np.random.default_rng(seed)
    sizes, counts, colours = draw.normal(size=count), draw.integers(0, 9, count), draw.integers(0, 3, count)
    noise = draw.logistic(size=count)
    cells = io.StringIO()
    writer = csv.writer(cells)
    writer.writerow(["size", "count", "colour", "sold"])
    for size, number, colour, more in zip(np.round(sizes * 8) / 8, counts, colours, noise, strict=True):
        is_sold = size + (number > 4) + colour + more > 1.5
        shown = "" if draw.random() < 0.1 else size
        writer.writerow([shown, number, COLOURS[colour], ("no", "yes")[int(is_sold)]])
    return cells.getvalue()


def cells_of(text: str) -> list[dict]:
    return list(csv.DictReader(io.StringIO(text)))


def records_of(text: str) -> list[dict]:
    return [
        {
            "size": float(cell["size"] or "nan"),
            "count": int(cell["count"]),
            "colour": cell["colour"],
            "sold": int(cell["sold"] == "yes"),
        }
        for cell in cells_of(text)
    ]


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    with on_one_thread():
        yield


TEXTS = {"train": csv_of(300, seed=1), "test": csv_of(120, seed=2)}


def table_in(directory: pathlib.Path, layout: str = "rows") -> Subject:
    splits = {split: records_of(text) for split, text in TEXTS.items()}
    return subject_of(write_dataset(directory / layout, TABLE, splits, layout=layout))


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> Subject:
    return table_in(tmp_path_factory.mktemp("table"))


def subject_of(dataset) -> Subject:
    return Subject(
        inputs=dataset.schema,
        training=select(dataset, "train"),
        final=select(dataset, "test"),
        statistics=loading.of_training(dataset),
    )


def labels_of(split: str) -> np.ndarray:
    return np.array([cell["sold"] == "yes" for cell in cells_of(TEXTS[split])])


def numbers_of(split: str) -> np.ndarray:
    """Sizes and counts, and the colours' numbers: [n, 3]."""
    cells = cells_of(TEXTS[split])
    columns = [[cell["size"] or "nan" for cell in cells], [cell["count"] for cell in cells]]
    colours = [COLOURS.index(cell["colour"]) for cell in cells]
    return np.array([*columns, colours], float).T


def one_hot(split: str) -> np.ndarray:
    """By hand: the gaps filled with the mean and marked, numbers standardised, a column for each colour."""
    train, own = numbers_of("train"), numbers_of(split)
    means = np.nanmean(train[:, :2], axis=0)

    def filled(numbers: np.ndarray) -> np.ndarray:
        gaps = np.isnan(numbers[:, 0])
        return np.column_stack([np.where(gaps, means[0], numbers[:, 0]), numbers[:, 1], gaps])

    fitted = filled(train)
    scaled = (filled(own) - fitted.mean(axis=0)) / fitted.std(axis=0)
    return np.column_stack([scaled, own[:, 2, None] == np.arange(3)])


def network_of(labels: np.ndarray) -> np.ndarray:
    """Some answers, [n, 2]."""
    positive = np.clip(0.3 + 0.3 * labels + np.random.default_rng(3).normal(0, 0.2, len(labels)), 0.01, 0.99)
    return np.stack([1 - positive, positive], axis=1)


def expected_of(labels: np.ndarray, positive: np.ndarray) -> dict[str, float]:
    return {
        "auc": metrics.roc_auc_score(labels, positive),
        "log_loss": metrics.log_loss(labels, positive),
        "accuracy": metrics.accuracy_score(labels, positive > 0.5),
        "brier": metrics.brier_score_loss(labels, positive),
    }


@pytest.mark.parametrize("layout", ["rows", "blocks"])
def test_numbers_are_those_of_scikit_learn_on_the_csv(layout: str, tmp_path: pathlib.Path):
    subject = table_in(tmp_path, layout)
    trained, labels = labels_of("train"), labels_of("test")
    network = network_of(labels)
    linear = LogisticRegression(max_iter=1000).fit(one_hot("train"), trained)
    trees = HistGradientBoostingClassifier(categorical_features=[2], random_state=0)
    trees.fit(numbers_of("train"), trained)
    answers = {
        "prior": np.full(len(labels), trained.mean()),
        "linear": linear.predict_proba(one_hot("test"))[:, 1],
        "boosting": trees.predict_proba(numbers_of("test"))[:, 1],
    }

    found = baselines.make(subject, network, labels.astype(np.int64))
    own = {name: value["value"] for name, value in found["network"].items()}
    assert own == pytest.approx(expected_of(labels, network[:, 1]), rel=1e-9)
    for each in found["baselines"]:
        expected = expected_of(labels, answers[each["name"]])
        values = {name: value["value"] for name, value in each["metrics"].items()}
        assert values == pytest.approx(expected, rel=1e-6 if each["name"] == "linear" else 1e-9), each["name"]
        better = {name: value["value"] for name, value in each["network_better_by"].items()}
        assert better["auc"] == pytest.approx(own["auc"] - values["auc"], abs=1e-9)
        assert better["log_loss"] == pytest.approx(values["log_loss"] - own["log_loss"], abs=1e-9)
        assert (
            each["network_better_by"]["auc"]["low"] < better["auc"] < each["network_better_by"]["auc"]["high"]
        )
    assert [each["name"] for each in found["baselines"]] == ["prior", "linear", "boosting"]
    assert (found["rows"], found["examples"], found["metric"]) == (300, 120, "auc")
    json.dumps(found, allow_nan=False)


def test_weights_of_rows_count_as_in_training(tmp_path):
    schema = dataclasses.replace(TABLE, features=(*TABLE.features, Numeric(name="weight")))
    weights = np.random.default_rng(4).integers(0, 3, 300).astype(float)
    splits = {split: records_of(text) for split, text in TEXTS.items()}
    for split, rows in splits.items():
        weighing = weights if split == "train" else np.ones(len(rows))
        splits[split] = [row | {"weight": weight} for row, weight in zip(rows, weighing, strict=True)]
    dataset = write_dataset(tmp_path / "1.0.0", schema, splits)
    subject = dataclasses.replace(subject_of(dataset), inputs=TABLE, weights=schema["weight"])
    labels = labels_of("test")
    trees = HistGradientBoostingClassifier(categorical_features=[2], random_state=0)
    trees.fit(numbers_of("train"), labels_of("train"), sample_weight=weights)

    [*_, found] = baselines.make(subject, network_of(labels), labels.astype(np.int64))["baselines"]
    expected = metrics.log_loss(labels, trees.predict_proba(numbers_of("test")))
    assert found["metrics"]["log_loss"]["value"] == pytest.approx(expected, rel=1e-9)


WORDS = ("good", "bad", "fine", "dull", "long", "short", "not")
REVIEWS = Schema(name="reviews", features=(Text(name="review"), Label(name="stars", task="regression")))


def reviews(count: int, *, seed: int) -> list[dict]:
    draw = np.random.default_rng(seed)
    texts = [" ".join(draw.choice(WORDS, draw.integers(3, 12))) for _ in range(count)]
    return [{"review": text, "stars": float(text.count("good") - text.count("not bad"))} for text in texts]


def test_texts_alone_have_words_and_pairs_and_no_trees(tmp_path):
    splits = {"train": reviews(200, seed=5), "test": reviews(60, seed=6)}
    subject = subject_of(write_dataset(tmp_path / "1.0.0", REVIEWS, splits))
    trained, tested = splits["train"], splits["test"]
    words = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2))
    ridge = Ridge().fit(
        words.fit_transform([row["review"] for row in trained]), [row["stars"] for row in trained]
    )
    labels = np.array([row["stars"] for row in tested], np.float32)
    answers = ridge.predict(words.transform([row["review"] for row in tested]))

    found = baselines.make(subject, labels + 0.5, labels)
    assert [each["name"] for each in found["baselines"]] == ["prior", "linear"]
    mean, linear = (each["metrics"]["mean_squared_error"]["value"] for each in found["baselines"])
    assert linear == pytest.approx(metrics.mean_squared_error(labels, answers), rel=1e-6)
    guess = np.mean([row["stars"] for row in trained])
    assert mean == pytest.approx(metrics.mean_squared_error(labels, np.full(60, guess)), rel=1e-9)
    assert found["network"]["mean_squared_error"]["value"] == pytest.approx(0.25)


def test_trees_see_the_words_of_a_text_beside_numbers(tmp_path):
    rated = Schema(name="rated", features=(Numeric(name="price"), *REVIEWS.features))
    splits = {
        split: [{"price": float(number % 7), **row} for number, row in enumerate(reviews(count, seed=seed))]
        for split, count, seed in (("train", 200, 5), ("test", 60, 6))
    }
    subject = subject_of(write_dataset(tmp_path / "1.0.0", rated, splits))
    words = TfidfVectorizer(sublinear_tf=True, max_features=100)
    texts = {split: [row["review"] for row in rows] for split, rows in splits.items()}
    # `fit_transform` differs from `transform` in the last bits, which decide between splits that are equal.
    of_texts = {"train": words.fit_transform(texts["train"]), "test": words.transform(texts["test"])}
    columns = {
        split: np.column_stack([[row["price"] for row in rows], of_texts[split].toarray()])
        for split, rows in splits.items()
    }
    labels = {split: np.array([row["stars"] for row in rows], np.float32) for split, rows in splits.items()}
    trees = HistGradientBoostingRegressor(random_state=0).fit(columns["train"], labels["train"])

    [*_, found] = baselines.make(subject, labels["test"] + 0.5, labels["test"])["baselines"]
    expected = metrics.mean_squared_error(labels["test"], trees.predict(columns["test"]))
    assert found["name"] == "boosting"
    assert found["metrics"]["mean_squared_error"]["value"] == pytest.approx(expected, rel=1e-6)


def test_each_name_of_a_list_is_a_word():
    genres = Categories(name="genres", vocabulary=("new york", "x"), length=3)
    values = np.array([[b"new york", b"x", b""], [b"", b"", b""]])
    cells = table._BY_TYPE.of(genres).read(genres, values, None)
    assert cells.tolist() == [["is_new_york is_x"], [""]]


def test_rows_of_one_class_leave_a_note(tmp_path):
    splits = {split: records_of(text) for split, text in TEXTS.items()}
    splits["train"] = [row | {"sold": 1} for row in splits["train"]]
    single = subject_of(write_dataset(tmp_path / "1.0.0", TABLE, splits))
    labels = labels_of("test")
    found = baselines.make(single, network_of(labels), labels.astype(np.int64))
    assert "prior" in [each["name"] for each in found["baselines"]]
    assert any(note.startswith("no logistic regression: ") for note in found["notes"])


# The report.


def test_a_network_that_loses_is_told_and_one_that_does_not_is_not(subject: Subject):
    labels = labels_of("test")
    guessing = np.random.default_rng(7).random(len(labels)) * 0.9 + 0.05
    found = baselines.make(subject, np.stack([1 - guessing, guessing], axis=1), labels.astype(np.int64))
    [finding] = losses(found)
    assert finding.text.startswith("Loses to logistic regression (0.")
    assert "--config.train.epochs" in finding.advice
    right = np.where(labels, 0.99, 0.01)
    better = baselines.make(subject, np.stack([1 - right, right], axis=1), labels.astype(np.int64))
    assert not list(losses(better))
    first, *rest = lines(better)
    assert first.startswith("baselines  on 120 examples of the test split, fitted to 300 training rows")
    assert len(rest) == 5  # a header, the network, three baselines
    assert len(baselines_section(better).parts[1].rows) == 4
    assert baselines_section({}) is None
    assert not list(losses({}))


def test_a_column_that_gives_the_label_away_is_named_first(tmp_path):
    code = Categorical(name="code", column="exit code", missing="mark", vocabulary=("moved", "price"))
    schema = dataclasses.replace(TABLE, features=(code, *TABLE.features))
    splits = {
        split: [{**row, "code": "moved" if row["sold"] else ""} for row in records_of(text)]
        for split, text in TEXTS.items()
    }
    subject = subject_of(write_dataset(tmp_path / "1.0.0", schema, splits))
    labels = labels_of("test").astype(np.int64)
    found = baselines.make(subject, np.eye(2)[labels] * 0.98 + 0.01, labels)
    assert found["alone"] == [{"column": "exit code", "score": 1.0}]
    [finding] = leaks(found)
    assert finding.text == "One column alone gives the label away, by its ROC AUC: exit code (1)."
    assert "Move it from 'features' to 'ignore'" in finding.advice
    assert f"note: {finding}" in list(lines(found))


def test_a_perfect_network_of_several_columns_is_no_leak(subject: Subject):
    labels = labels_of("test").astype(np.int64)
    found = baselines.make(subject, np.eye(2)[labels] * 0.98 + 0.01, labels)
    assert found["alone"] == [] == list(leaks(found))


def test_a_number_that_is_the_label_in_another_unit_gives_it_away(tmp_path):
    schema = Schema(
        name="houses",
        features=(Numeric(name="euros"), Numeric(name="rooms"), Label(name="francs", task="regression")),
    )
    draw = np.random.default_rng(3)
    rows = [
        {"euros": price, "rooms": draw.integers(1, 9), "francs": 0.95 * price} for price in draw.random(1_500)
    ]
    subject = subject_of(
        write_dataset(tmp_path / "1.0.0", schema, {"train": rows[:1_000], "test": rows[1_000:]})
    )
    labels = np.array([row["francs"] for row in rows[1_000:]], np.float32)
    found = baselines.make(subject, labels + 0.001, labels)
    assert [each["column"] for each in found["alone"]] == ["euros"]
    assert "by its R²: euros (0.99" in str(next(leaks(found)))


def test_a_difference_names_its_metric_and_has_its_digits(subject: Subject):
    labels = labels_of("test").astype(np.int64)
    found = baselines.make(subject, network_of(labels), labels)
    _, header, _, prior, *_ = lines(found)
    assert header.endswith("network better by (ROC AUC)")
    assert all(len(line) <= 80 for line in (header, prior))
    assert re.search(r"\+0\.\d{4} \[\+0\.\d{4}, \+0\.\d{4}\]$", prior)


def test_a_root_of_squared_errors_has_the_unit_of_the_label(tmp_path):
    splits = {"train": reviews(200, seed=5), "test": reviews(60, seed=6)}
    subject = subject_of(write_dataset(tmp_path / "1.0.0", REVIEWS, splits))
    labels = np.array([row["stars"] for row in splits["test"]], np.float32)
    found = baselines.make(subject, labels + 0.5, labels)
    assert re.search("network +0.5", "\n".join(lines(found)))
    assert "0.5 [0.5, 0.5]" in str(baselines_section(found).parts[1].rows[0])


# The order of predictions, and samples.


@pytest.mark.parametrize("hosts", [1, 2, 3])
def test_predictions_come_back_in_the_order_of_the_rows(hosts: int):
    rows, steps, batch = 28, 4, 12
    share = batch // hosts
    seen = Predictions()
    for step in range(steps):
        of_hosts = [
            host * steps * share + step * share + np.arange(share) for host in range(hosts)
        ]  # each reads a range
        positions = np.concatenate(of_hosts)
        seen(positions * 10, np.stack([positions, -positions], axis=1), (positions < rows).astype(float))
    labels, predictions = seen.in_stored_order(hosts=hosts)
    assert labels.tolist() == [10 * row for row in range(rows)]
    assert predictions[:, 1].tolist() == [-row for row in range(rows)]


def test_a_sample_is_of_whole_runs_spread_over_all_rows():
    found = baselines.sampled(1_000_000, 50_000, seed=0)
    assert 40_000 < len(found) <= 50_000
    assert (np.diff(found) > 0).all()
    assert found.max() < 1_000_000
    assert np.histogram(found, bins=4, range=(0, 1_000_000))[0].min() > 5_000
    assert (found == baselines.sampled(1_000_000, 50_000, seed=0)).all()
    assert len(baselines.sampled(3_000, 1_000, seed=0)) == 1_000
    assert baselines.sampled(1_010, 1_000, seed=0).tolist() == list(range(1_000))
    assert baselines.sampled(7, 1_000, seed=0).tolist() == list(range(7))


def test_images_have_no_baselines(subject: Subject):
    pictures = Schema(name="pictures", features=(Image(name="image"), Label(name="kind", classes=("a", "b"))))
    assert baselines.is_for(TABLE, subject.final)
    assert not baselines.is_for(pictures, subject.final)


def test_rows_that_are_trained_on_compare_nothing(subject: Subject):
    found = baselines.made(
        dataclasses.replace(subject, final=subject.training), baselines.Predictions(), hosts=1
    )
    assert found == {"baselines": [], "notes": ["rows of 'train' are trained on: trees know them by heart"]}


# A run.


@pytest.mark.slow
def test_a_run_writes_them_at_its_end_and_anew_when_it_goes_on(request_for, tmp_path, config, capsys):
    workdir = tmp_path / "run"
    evaluation = run.train(request_for(workdir, baseline=True))
    found = json.loads((workdir / "baselines.json").read_text())
    assert found["network"]["auc"]["value"] == pytest.approx(evaluation["auc"], abs=1e-6)
    assert found["network"]["log_loss"]["value"] == pytest.approx(evaluation["loss"], abs=1e-6)
    assert (found["rows"], found["examples"]) == (200, 70)
    assert "baselines  on 70 examples" in capsys.readouterr().out
    assert "Beside simple models" in (workdir / "report.html").read_text()
    config.train.epochs = 4.0
    longer = run.train(request_for(workdir, baseline=True, experiment=parsed(config)))
    again = json.loads((workdir / "baselines.json").read_text())
    assert again["network"]["log_loss"]["value"] == pytest.approx(longer["loss"], abs=1e-6)
    assert longer["loss"] != evaluation["loss"]
    config.train.epochs = 5.0
    run.train(request_for(workdir, experiment=parsed(config)))
    assert not (workdir / "baselines.json").exists()  # those of fewer steps


@pytest.mark.slow
def test_without_scikit_learn_a_run_says_so_and_ends_well(request_for, tmp_path, monkeypatch, capsys):
    for name in [name for name in sys.modules if name == "sklearn" or name.startswith("sklearn.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    assert run.train(request_for(tmp_path, baseline=True))["examples"] == 70
    assert "baselines  none: scikit-learn is not installed: pip install" in capsys.readouterr().out
    assert json.loads((tmp_path / "run.json").read_text())["finished"]
