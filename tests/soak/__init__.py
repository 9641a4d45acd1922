"""Programs that take long, which pytest never collects. Each is a table of cases: `--list` prints it.

`kill` sends signals to processes and lets them go on (kill_*.py are its families of cases); `damage` damages
files and data (damaged.py, hostile_*.py, external_*.py, run_mutation.py, poisoned.py, seen_pictures.py). The
others stand alone: same_as, acceptance, engines, workers, month, large, slow_storage, certificate,
augmentation, fault_injection, models, preflight_models. harness.py runs a table. Start with kill.py and
case.py.
"""
