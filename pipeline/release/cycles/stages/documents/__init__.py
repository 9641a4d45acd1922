"""What lies beside every published model: its card for people, its lineage for programs.

May import what the stages may. Start with card.py.
"""
