"""Each file holds one experiment, and may import only base.py, which has every setting.

base.py may import pipeline/data/images, for the settings of augmentation. Commands run configs by path.
"""
