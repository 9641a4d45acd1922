"""Writes made-up recipes, a line each: 900 to train with and 100 to test with."""

import pathlib
import random
import sys

random.seed(4)
STEPS = {"boil": "until it is soft", "fry": "until it is brown", "chop": "into small pieces"}


def recipe() -> str:
    verb, thing = random.choice(list(STEPS)), random.choice(["leek", "fish", "onion"])
    return f"{verb} the {thing} {STEPS[verb]}. serve the {thing} {random.choice(['hot', 'cold'])}."


for split, lines in {"train": 900, "test": 100}.items():
    text = "".join(f"{recipe()}\n" for _ in range(lines))
    pathlib.Path(sys.argv[1], f"{split}.txt").write_text(text)
