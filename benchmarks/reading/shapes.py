"""The sizes that data and readers of the input benchmark share; importable in every environment."""

NUMBERS, CATEGORIES, CARDINALITY = 13, 26, 100_000
COLUMNS = NUMBERS + CATEGORIES + 1  # the label
ROW_TOKENS, VOCABULARY, END = 513, 32_000, 0

SIDE = 224  # of an image, in pixels
MEAN = (123.675, 116.28, 103.53)  # of ImageNet's pixels, 0 to 255
STD = (58.395, 57.12, 57.375)

BATCH = {"tabular": 1024, "images": 256, "tokens": 1024}
