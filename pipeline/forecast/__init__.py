"""Forecasts of a training step on an accelerator that is not there: does it compile, fit, how fast may it be?

Imports data, training and report. Start with stages.py; compiler.py is the process of the TPU's compiler.
"""
