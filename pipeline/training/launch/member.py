"""One of the processes of `--workers=N`: trains as the command line says, and ends when the launcher does.

python -m pipeline.training.launch.member MODULE --config=… --workers=2 …, with TF_CONFIG, and a pipe as its
stdin.
"""

if __name__ == "__main__":  # Ctrl-C may come while the imports below run
    from pipeline.base.cli import signals

    signals.handle_signals()

import ctypes
import os
import runpy
import signal
import sys
import threading

_END_WITH_PARENT = 1  # PR_SET_PDEATHSIG of prctl(2)


def end_with_launcher(launcher: int) -> None:
    """Kills this process when the launcher ends, in whatever way: only the launcher holds the pipe's other
    end.

    Args:
      launcher: a file descriptor of the pipe. Nothing is ever written to it.
    """
    # Kills at once, even while this process is stopped.
    ctypes.CDLL(None).prctl(_END_WITH_PARENT, signal.SIGKILL)
    # The launcher may be dead already.
    threading.Thread(target=_end_after, args=[launcher], daemon=True).start()


def _end_after(launcher: int) -> None:
    os.read(launcher, 1)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    end_with_launcher(os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
