"""What a config names is looked for in the schema before anything is trained."""

import pytest

from pipeline.base.errors import InputError
from pipeline.retraining import plan
from tests.shared.small_spans import SCHEMA
from tests.unit.retraining.settings_test import parsed


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        (
            {"gate__slices": ("compani",)},
            r"config\.gate\.slices: received 'compani'.* Did you mean 'company'",
        ),
        ({"gate__clustered_by": "driver"}, r"config\.gate\.clustered_by: received 'driver'"),
        ({"holdout__weighted_by": "company"}, r"config\.holdout\.weighted_by: received 'company'"),
        ({"drift__ignore": ("date",)}, r"config\.drift\.ignore: received 'date'"),
        ({"gate__metric": "mean_squared_error"}, r"config\.gate\.metric: .* task 'binary': log_loss, auc"),
        ({"gate__floors": {"mean_absolute_error": 3.0}}, r"config\.gate\.floors: .* task 'binary'"),
    ],
)
def test_what_the_schema_does_not_have_is_named(keys, named):
    with pytest.raises(InputError, match=named):
        plan.check_features(parsed(**keys), SCHEMA)


def test_what_the_schema_has_may_be_named():
    keys = {
        "gate__slices": ("company",),
        "gate__clustered_by": "company",
        "gate__floors": {"auc": 0.6},
        "holdout__weighted_by": "distance",
        "drift__ignore": ("distance",),
    }
    plan.check_features(parsed(**keys), SCHEMA)


def test_a_plan_names_it_before_a_cycle_begins(schedule):
    schedule.add(3)
    schedule.config.gate.slices = ("compani",)
    with pytest.raises(InputError, match=r"config\.gate\.slices"):
        schedule.plan()
