"""What config.publish_to may say."""

import sys

import pytest

from pipeline.base.errors import InputError
from pipeline.publishing.remote import cloud_storage


def test_an_empty_text_is_no_place():
    assert cloud_storage.parse("") is None


@pytest.mark.parametrize("url", ["gs://bucket/models/taxi", "gs://bucket/models/taxi/"])
def test_a_folder_of_a_bucket_is_a_place(url, monkeypatch):
    monkeypatch.setattr(cloud_storage, "check_installed", lambda url: None)
    assert cloud_storage.parse(url).url == "gs://bucket/models/taxi"


@pytest.mark.parametrize(
    "url",
    [
        "s3://bucket/models/taxi",
        "/models/taxi",
        "gs://bucket",
        "gs://bucket/",
        "gs://bucket//taxi",
        "gs://bucket/../taxi",
        "gs://bucket/models/*",
        "gs://Bucket/models",
        "gs://bucket/models taxi",
    ],
)
def test_no_other_place_is_taken(url):
    with pytest.raises(InputError, match=r"config\.publish_to: received .*; expected gs://BUCKET/FOLDER"):
        cloud_storage.parse(url)


def test_a_library_that_is_missing_is_told_at_once(monkeypatch):
    monkeypatch.setitem(sys.modules, "google.cloud.storage", None)
    with pytest.raises(InputError, match=r"publish_to.*pip install -r requirements/gcp\.txt"):
        cloud_storage.parse("gs://bucket/models/taxi")
