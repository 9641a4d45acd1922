"""Keeps a run on disk: its record, history, goodput log and checkpoints.

May import data and pipeline/report. Start with workdir.py, which says where each file is. run_record.py has
the fields of run.json: run/request.py fills them, report/inputs.py reads them as plain JSON.
"""
