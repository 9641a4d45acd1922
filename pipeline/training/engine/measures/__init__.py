"""What a step costs and what the machine could do: operations of a model, peaks of accelerators, memory.

May import what engine may. Start with flops.py.
"""
