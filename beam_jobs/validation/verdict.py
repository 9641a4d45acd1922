"""The rules by which a dataset is judged before it is published, and the verdict."""

import dataclasses
from collections.abc import Sequence

from beam_jobs.validation import anomalies as anomalies_lib
from beam_jobs.validation import baseline as baseline_lib
from beam_jobs.validation import conformance
from beam_jobs.validation.anomalies import Anomaly, Policy
from pipeline.data.dataset import window
from pipeline.data.dataset.statistics import Statistics
from pipeline.data.schema.schema import Schema
from pipeline.data.statistics import loading


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rules:
    """`baseline` holds the statistics of an earlier dataset; empty where there is none to compare with."""

    policy: Policy = dataclasses.field(default_factory=Policy)
    baseline: Statistics = dataclasses.field(default_factory=dict)
    baseline_digest: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Verdict:
    """What was found, and the rules by which it was."""

    rules: Rules
    anomalies: tuple[Anomaly, ...]

    def dumps(self) -> str:
        """The content of the dataset's anomalies.json."""
        rules = self.rules
        return anomalies_lib.dumps(self.anomalies, rules.policy, baseline_digest=rules.baseline_digest)


def parse_rules(*, severities: Sequence[str], limits: Sequence[str], baseline: str | None) -> Rules:
    """The rules of texts `kind=severity` and `kind=number`, and of a dataset directory; raises InputError."""
    policy = anomalies_lib.parse_policy(severities, limits)
    if not baseline:
        return Rules(policy=policy)
    dataset = window.open_window([baseline])
    return Rules(policy=policy, baseline=loading.load(dataset), baseline_digest=dataset.manifest.digest)


def judge(measured: Statistics, schema: Schema, rules: Rules, *, leaked: Sequence[Anomaly] = ()) -> Verdict:
    """Adds to what was `leaked` what the statistics show; raises InputError if any is of severity "error"."""
    found = [
        *conformance.anomalies(measured, schema, rules.policy),
        *leaked,
        *baseline_lib.anomalies(measured, rules.baseline, rules.policy),
    ]
    anomalies_lib.check(found)
    return Verdict(rules=rules, anomalies=tuple(found))
