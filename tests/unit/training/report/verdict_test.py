"""What an evaluation tells against a model, or against its split."""

import pytest

from pipeline.training.report.findings import verdict


def of_classes(*rows: list[int]) -> dict:
    return {"classes": ["no", "yes"], "confusion_matrix": list(rows)}


@pytest.mark.parametrize(
    ("evaluation", "said"),
    [
        ({}, []),
        ({"r2": 0.01}, []),
        ({"r2": -1980.13}, ["R² is -1,980: always answering the mean label would be nearer."]),
        (of_classes([8, 1], [1, 2]), []),
        (of_classes([8, 2], [2, 2]), ["No more answers are right than by always answering “no”."]),
        (of_classes([8, 2], [2, 1]), ["No more answers are right than by always answering “no”."]),
        (of_classes([177, 0], [0, 0]), ["The split has no example of: yes."]),
    ],
)
def test_what_is_said_of_an_evaluation(evaluation: dict, said: list[str]):
    assert [finding.text for finding in verdict(evaluation)] == said
