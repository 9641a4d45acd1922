"""The registry names each model by its own name."""

from models.registry import MODELS


def test_names():
    assert {name: function.__name__ for name, function in MODELS.items()} == {name: name for name in MODELS}
    assert set(MODELS) == {"resnet", "tabular", "transformer", "wide_deep"}
