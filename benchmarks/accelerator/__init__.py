"""What `benchmarks.metal` does: parts.py first. datasets.py makes data, probe.py looks, page.py shows."""
