"""Forecasts of a training step on an accelerator that is not there: does it compile, fit, how fast may it be?

Imports data, training and report. Start with stages.py; compiler.py and rehearsal.py are processes of
their own: the TPU's compiler, and two steps on this processor.
"""
