"""The dataset: what it is, how it is read, prepared and fed. May import nothing else of this project.

Start with schema/ and dataset/; then reading/, preprocessing/ and input/. The files here serve all rooms:
errors, command lines, files written whole.
"""
