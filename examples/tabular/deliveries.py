"""Writes 1,500 made-up deliveries as CSV; a `?` is a weight that nobody noted."""

import random

random.seed(1)
print("kilos,kilometres,express,cost")
for _ in range(1500):
    kilos, kilometres = round(random.uniform(0.1, 30), 1), random.randint(1, 900)
    express = random.choice(["yes", "no"])
    cost = (5 + 0.4 * kilos + 0.02 * kilometres) * (2 if express == "yes" else 1) + random.gauss(0, 0.5)
    print(random.choice(["?", kilos]) if kilos < 2 else kilos, kilometres, express, round(cost, 2), sep=",")
