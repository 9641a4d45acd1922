"""The simulated holdouts on which `python -m benchmarks.gate` tests the gate."""
