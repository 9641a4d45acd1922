"""The certificate of a pipeline on so many cores of this host, in a file of a round. Run by itself.

python -m tests.pipeline.data.feed.cores.measured FOLDER CORES SECONDS ROUND NAME
"""

import os
import pathlib
import pickle
import sys
import tempfile


def main(argv: list[str]) -> int:
    folder, cores, seconds = pathlib.Path(argv[1]), int(argv[2]), float(argv[3])
    number, name = int(argv[4]), argv[5]
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])  # TensorFlow asks when it is imported
    from pipeline.base import tensorflow_start  # noqa: F401 - before TensorFlow
    from pipeline.feed.certificate import Certificate, Demand, copy_to, issue
    from pipeline.feed.scaling import HERE
    from tests.pipeline.data.feed.cores.eight import eight
    from tests.pipeline.data.feed.cores.odd import odd
    from tests.pipeline.data.feed.cores.results import SLOW_DISK, file_of
    from tests.pipeline.data.feed.cores.slow_disk import of_slow_disk

    def found(scratch: pathlib.Path) -> Certificate | None:
        if name != SLOW_DISK:
            recipe = (eight(folder / "data") | odd(folder / "data", scratch))[name]()
            demand = Demand(global_batch=recipe.batch, slice=HERE)
            return issue(recipe, demand, copy=copy_to("CPU:0"), seconds=seconds)
        try:
            return of_slow_disk(scratch / "disk", seconds=seconds)
        except OSError as error:
            print(f"The disk cannot be throttled here: {error}", file=sys.stderr)
            return None

    print(f"{cores} cores, round {number + 1}: {name}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        certificate = found(pathlib.Path(scratch))
        file_of(folder, cores, name, number).write_bytes(pickle.dumps(certificate))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
