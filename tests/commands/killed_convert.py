"""Runs beam_jobs.convert and kills it (-9) at its n-th change to the output directory.

  python tests/commands/killed_convert.py N OUTPUT FLAG…

With N = 0 it lives, and the number of changes is printed last: a place to die is the same on every run,
which watching a clock or the directory from outside would not give.
"""

import os
import runpy
import signal
import sys

CHANGES = {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir"}


def main() -> None:
    deadly, output = int(sys.argv[1]), sys.argv[2]
    seen = 0

    def watch(event: str, arguments: tuple) -> None:
        nonlocal seen
        if event not in CHANGES or not str(arguments[0]).startswith(output):
            return
        if event == "open" and not arguments[2] & (os.O_WRONLY | os.O_RDWR):
            return
        if str(arguments[0]).endswith("/progress"):  # how often it is written is not the same on every run
            return
        seen += 1
        if seen == deadly:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.argv = ["convert", *sys.argv[3:]]
    sys.addaudithook(watch)
    try:
        runpy.run_module("beam_jobs.convert", run_name="__main__")
    finally:
        print(seen)


if __name__ == "__main__":
    main()
