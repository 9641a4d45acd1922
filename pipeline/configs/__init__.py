"""One experiment a file, which may import nothing but base.py, where everything that can be set stands.

base.py may import pipeline/data/images, for the settings of augmentation. Commands run configs by path.
"""
