"""What `benchmarks.metal` needs: datasets.py makes data, probe.py looks at devices, page.py shows all."""
