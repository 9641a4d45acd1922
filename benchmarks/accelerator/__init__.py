"""What `benchmarks.metal` does: start with parts.py. datasets.py makes data, probe.py looks, page.py shows."""
