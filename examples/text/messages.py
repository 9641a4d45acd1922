"""Writes 1,200 made-up messages to three desks, one in twenty to the wrong one."""

import csv
import random
import sys

random.seed(3)
SAID = {
    "bills": ["I paid twice", "the invoice is wrong", "please refund me"],
    "repairs": ["it does not start", "a part is broken", "it smells of smoke"],
    "sales": ["what does it cost", "is it in stock", "do you ship abroad"],
}
ELSE = ["hello", "thank you", "as I wrote on Monday", "best wishes", "I am in a hurry", "my name is Kim"]
ELSE += ["I live far away", "please answer soon", "you know me", "sorry for the noise", "it is late"]
rows = csv.writer(sys.stdout)
rows.writerow(["message", "desk"])
for _ in range(1200):
    desk = random.choice(list(SAID))
    parts = random.sample([random.choice(SAID[desk]), *random.sample(ELSE, 4)], 5)
    rows.writerow([". ".join(parts), random.choice(list(SAID)) if random.random() < 0.05 else desk])
