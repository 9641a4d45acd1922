"""`--sweep=config.a=1,2;config.b=…`: a run for each combination of values. May import pipeline/data.

Start with sweep.py. Each run is a process of its own; none here imports TensorFlow before they have ended.
"""
