"""The registry names each model by its own name."""

from models.registry import MODELS


def test_names():
    assert {name: function.__name__ for name, function in MODELS.items()} == {name: name for name in MODELS}
    assert set(MODELS) == {
        *(
            "bag_of_ngrams",
            "dcn",
            "resnet",
            "resnet18",
            "resnet50",
            "sequence_recommender",
            "tabular",
            "transformer",
            "two_tower",
        ),
        *("vit", "wide_deep"),
    }
