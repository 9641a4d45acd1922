"""Writes made-up days of a canteen: ROOT/date=2026-11-0N/meals.csv, for each N of the command line."""

import pathlib
import random
import sys

root, *days = sys.argv[1:]
for day in days:
    random.seed(int(day))
    lines = ["guests,price,dish,sold_out"]
    for _ in range(800):
        guests, price = random.randint(20, 300), round(random.uniform(3, 12), 1)
        dish = random.choice(["soup", "pasta", "curry"])
        wanted = guests / 50 - price / 3 + 2 * (dish == "pasta") + random.gauss(0, 0.7)
        lines.append(f"{guests},{price},{dish},{'yes' if wanted > 1.5 else 'no'}")
    folder = pathlib.Path(root, f"date=2026-11-{int(day):02d}")
    folder.mkdir(parents=True)
    (folder / "meals.csv").write_text("\n".join(lines) + "\n")
