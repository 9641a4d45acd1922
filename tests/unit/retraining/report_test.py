"""The card of a cycle."""

import numpy as np
import pytest

from pipeline.data.dataset.statistics import FeatureStatistics, NumericSummary, ValueCounts
from pipeline.data.schema.feature_types import Categorical, Datetime, Numeric
from pipeline.gate.rules import GateRules
from pipeline.gate.verdict import evaluate
from pipeline.retraining import cycle, documents, records, report, status
from pipeline.retraining.job import Job
from pipeline.retraining.report import centre
from tests.unit.gate.holdouts import binary


def test_every_stage_of_a_cycle_has_a_line():
    assert list(status.STAGES) == list(cycle.STAGES)


# A model card says what the gate found; names come from data, and on a card they are text.

ROWS = 6_000
CITIES = np.array([f"city {number:02}" for number in range(30)])[np.arange(ROWS) % 30]
NOISE = np.where(CITIES == "city 29", 1.5, 0.2)  # of the challenger: there it is worse


@pytest.fixture
def told(schedule):
    """The card and the report of a cycle that came to another verdict of the gate."""

    def tell(rules: GateRules, slices: np.ndarray = CITIES, **noise: object) -> tuple[str, str]:
        verdict = evaluate(binary(ROWS, extra={"slices": {"city": slices}}, **noise), rules)
        (ran,) = schedule.cycles
        job = Job(root=schedule.root, settings=schedule.settings, id=ran.id, plan=ran.plan, now=None)
        before = job.result("decide")
        job.result_path("decide").unlink()
        records.write_result(job.result_path("decide"), {**before, "gate": verdict.to_json()})
        return documents.write_card(job, promoted_by=""), report.render(job)

    return tell


def test_of_many_slices_the_weakest_are_shown(told):
    page, _ = told(GateRules(slices=("city",)), challenger=NOISE, champion=0.5)
    shown = [line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| city")]
    assert len(shown) == 20
    assert shown[0] == "city = city 29"
    assert "20 of 30; those that gained least on the champion come first." in page


def test_slices_that_are_too_many_to_list_are_counted(told):
    ids = np.array([f"id {row}" for row in range(ROWS)])
    page, report_page = told(GateRules(slices=("city",)), ids, challenger=0.2, champion=0.5)
    assert "- Slices that were not compared with a champion: 6,000; they are too small." in page
    assert "Not listed, and not evaluated: 5,950 slices with fewer rows." in report_page


def test_slices_of_a_first_model_are_compared_with_nothing(told):
    page, _ = told(GateRules(slices=("city",)), challenger=0.2)
    assert "Slices that were not compared with a champion: 30; there was none, or they are too small." in page


def test_how_to_make_it_again_is_what_the_cycle_did_whatever_the_config_says_today(schedule):
    (ran,) = schedule.cycles
    train = {"config": "tips.py", "flags": ["--config.model.hidden=(8, 4)"], "start": "champion"}
    plan = {**ran.plan, "champion": {"version": 4, "cycle": "ab12"}, "config": {"train": train}}
    schedule.config.train.flags = ("--config.seed=7",)
    job = Job(root=schedule.root, settings=schedule.settings, id=ran.id, plan=plan, now=None)
    (command,) = [
        line for line in documents.write_card(job, promoted_by="").splitlines() if "pipeline.train" in line
    ]
    given = "--config=tips.py '--config.model.hidden=(8, 4)' --warm_start=CYCLES/ab12/run"
    assert command == f"python -m pipeline.train {given} \\"


@pytest.mark.parametrize(("confidence", "shown"), [(0.95, "95%"), (0.995, "99.5%")])
def test_the_confidence_is_not_rounded(told, confidence, shown):
    page, _ = told(GateRules(confidence=confidence), challenger=0.2, champion=0.5)
    assert f"On 6,000 rows of the holdout; intervals of {shown}." in page


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("2026-11-01", "2026-11-01"),
        ("log_loss is 0.2", "log_loss is 0.2"),
        ("a\n# b", "a # b"),
        ("a|b", r"a\|b"),
        ("a\\|b", r"a\\\|b"),
        ("<script>", "&lt;script>"),
        ("[here](javascript:alert(1))", r"\[here\](javascript:alert(1))"),
        ("![](http://x)", r"!\[\](http://x)"),
        ("`id`", "'id'"),
    ],
)
def test_what_could_be_markup_is_written_as_text(text, written):
    assert documents._plain(text) == written


# A report tells numbers as the raw data has them.


def numeric(mean: float, dtype: str = "float32") -> FeatureStatistics:
    summary = NumericSummary(mean=mean, std=1.0, minimum=mean, maximum=mean, zeros=0, quantiles=())
    return FeatureStatistics(name="x", dtype=dtype, present=10, missing=0, numeric=summary)


@pytest.mark.parametrize(
    ("declared", "mean", "told"),
    [
        (Numeric(name="x"), 3.25, "3.25"),
        (Numeric(name="x", offset=-73.9), 0.4, "-73.5"),
        (Datetime(name="x", format="%Y-%m-%d"), 1_793_534_400e6, "2026-11-01 12:00:00+00:00"),
    ],
)
def test_the_mean_is_told_as_the_raw_data_has_it(declared, mean, told):
    assert centre(numeric(mean), declared) == told


def test_the_commonest_value_may_be_empty():
    counts = ValueCounts(values=(("", 6), ("a", 4)), distinct=2, complete=True)
    feature = FeatureStatistics(name="x", dtype="string", present=10, missing=0, values=counts)
    assert centre(feature, Categorical(name="x")) == "(empty) (60.0 %)"
