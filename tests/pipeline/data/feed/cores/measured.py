"""Certificates of the eight pipelines on so many cores of this host; and one of a slow disk. Run by itself.

python -m tests.pipeline.data.feed.cores.measured FILE CORES SECONDS
"""

import os
import pathlib
import pickle
import sys
import tempfile
import traceback


def main(argv: list[str]) -> int:
    file, cores, seconds = pathlib.Path(argv[1]), int(argv[2]), float(argv[3])
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])  # TensorFlow asks when it is imported
    from pipeline.data import quiet  # noqa: F401 - before TensorFlow
    from pipeline.data.feed.certificate import Demand
    from pipeline.data.feed.issue import copy_to, issue
    from pipeline.data.feed.slices import HERE
    from tests.pipeline.data.feed.cores.eight import BATCH, eight
    from tests.pipeline.data.feed.cores.slow_disk import of_slow_disk

    found = {}
    with tempfile.TemporaryDirectory() as name:
        for pipeline, build in eight(pathlib.Path(name)).items():
            print(f"{cores} cores: {pipeline}", file=sys.stderr, flush=True)
            demand = Demand(global_batch=BATCH, slice=HERE)
            found[pipeline] = issue(build(), demand, copy=copy_to("CPU:0"), seconds=seconds)
        try:
            found["slow disk"] = of_slow_disk(pathlib.Path(name) / "disk", seconds=seconds)
        except OSError:
            traceback.print_exc(limit=1)
    file.write_bytes(pickle.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
