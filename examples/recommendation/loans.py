"""Writes 2,000 made-up loans: who has read a volume of a series mostly takes the next one."""

import json
import random

random.seed(5)
read: dict[int, list[str]] = {}
for _ in range(2000):
    reader = random.randrange(150)
    latest = read.setdefault(reader, [])
    series, volume = latest[0].rsplit(" ", 1) if latest else ("", 8)
    if int(volume) < 8 and random.random() < 0.85:
        book = f"{series} {int(volume) + 1}"
    else:
        book = f"series {random.choice('ABCDE')} {random.randint(1, 3)}"
    print(json.dumps({"reader": f"r{reader}", "latest": latest[:3], "book": book}))
    latest.insert(0, book)
