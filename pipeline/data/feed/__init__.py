"""The feed certificate: what each stage of an input pipeline gives, which one is the limit, what to change.

May import input, dataset and schema. Start with certificate.py, then issue.py, which measures.
"""
