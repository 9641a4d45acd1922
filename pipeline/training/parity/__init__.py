"""Does one way of computing give what another gives? Start with subject.py; pipeline/parity.py asks all."""
