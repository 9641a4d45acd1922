"""Text from a trained language model, one token after the other. May import training, exporting, models.

Start with decoding.py: the loop, and what computes the next logits; sampling.py chooses a token from them,
and opening.py finds model and tokenizer of a run or an export. The command is pipeline/generate.py.
"""
