"""Secrets are taken out; what only looks like one stays."""

import pytest

from pipeline.base.redaction import public, public_text, public_uris


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://me:hunter2@host:5000/x", "https://…@host:5000/x"),
        ("at 'https://abc123@host'", "at 'https://…@host'"),
        ("https://host/x?run=3&access_token=abc&y=1", "https://host/x?run=3&access_token=…&y=1"),
        (
            "--config.model.token_count=5 file:///a@b me@host",
            "--config.model.token_count=5 file:///a@b me@host",
        ),
    ],
)
def test_uris(text, shown):
    assert public_uris(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("{'api_key': 'abc', 'x': 1}", "{'api_key': '…', 'x': 1}"),
        ("Authorization: Bearer abc.def refused", "Authorization: … refused"),
        ("wandb_api_key=abc, password = x", "wandb_api_key=…, password = …"),
        ("tokens=5", "tokens=5"),
    ],
)
def test_texts(text, shown):
    assert public_text(text) == shown


def test_values_of_a_config():
    config = (
        "mlflow",
        {"config": {"tracking_uri": "http://u:p@h", "token": "abc", "headers": {"X-Api-Key": "k"}}},
    )
    shown = (
        "mlflow",
        {"config": {"tracking_uri": "http://…@h", "token": "…", "headers": {"X-Api-Key": "…"}}},
    )
    assert public(config) == shown
    assert public({"token": "", "seed": 3}) == {"token": "", "seed": 3}
