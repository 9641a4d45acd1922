"""Draws 800 arrows of 16 x 16 pixels, which point left, right, up or down: ROOT/CLASS/FILE."""

import pathlib
import random
import sys

from PIL import Image, ImageDraw

random.seed(2)
for number in range(800):
    picture = Image.new("L", (16, 16), random.randrange(80))
    x, y, grey = random.randint(5, 10), random.randint(5, 10), random.randint(150, 255)
    ImageDraw.Draw(picture).polygon([(x - 4, y), (x + 4, y - 4), (x + 4, y + 4)], fill=grey)
    turns = number % 4
    folder = pathlib.Path(sys.argv[1], ["left", "down", "right", "up"][turns])
    folder.mkdir(parents=True, exist_ok=True)
    picture.rotate(90 * turns).save(folder / f"{number:03d}.png")
