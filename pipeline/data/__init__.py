"""The dataset: what it is, how it is read, prepared and fed to a model.

May import base. Start with schema/ and dataset/; then reading/, preprocessing/ and input/.
"""
