"""The Dockerfile without Docker: its own instructions, one by one, in a fresh Debian of the same release.

What it installs must then retrain: the demo's first three days, as the user that the image runs as. Only
FROM is replaced, by debootstrap; the image itself is not built. Needs root and the package index.
"""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator

from tests.commands.deploy import dockerfile, recipes

NEEDS = ("debootstrap", "unshare", "chroot")
_DEBIAN = re.compile(r"debian:(\w+)-slim")
_CERTIFICATES = "/etc/ssl/outside.crt"  # the image installs its own into /etc/ssl/certs meanwhile
# Mounts are seen by the command alone, and end with it.
_MOUNT = 'mount -t proc proc "$0/proc"; mount --bind /dev "$0/dev"; exec "$@"'


def check(folder: pathlib.Path) -> Iterator[str]:
    """Builds below `folder`; yields what was seen.

    Raises:
      subprocess.CalledProcessError: an instruction, or the retraining, failed.
    """
    steps = dockerfile.steps((recipes.CHECKOUT / "deploy/image/Dockerfile").read_text())
    root = folder / "image"
    _fresh_debian(root, release=_DEBIAN.fullmatch(steps[0].rest)[1], folder=folder)
    image = _Image(root)
    for step in steps[1:]:
        image.apply(step)
    count = sum(step.word in ("RUN", "COPY") for step in steps)
    yield f"{count} instructions; {image.run('python --version').strip()}"
    yield from _retrains(image)


class _Image:
    """A folder with a system, and what the instructions so far have set."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        self.environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive"}
        self.directory = "/"
        self.user = "0:0"

    def apply(self, step: dockerfile.Step) -> None:
        match step.word:
            case "RUN":
                self.run(step.rest, builds=True)
            case "COPY":
                self._copy(step.rest)
            case "ARG" | "ENV":
                name, _, value = step.rest.partition("=")
                self.environment[name] = value
            case "WORKDIR":
                self.directory = step.rest
                self.inside(step.rest).mkdir(parents=True, exist_ok=True)
            case "USER":
                self.user = step.rest
            case "CMD":
                pass  # the recipes give the command
            case _:
                raise ValueError(f"no rehearsal of {step.word}")

    def run(self, command: str, *, builds: bool = False) -> str:
        """What `command` prints; `builds`: with the way to the package index that this machine has."""
        words = ["unshare", "--mount", "--pid", "--fork", "sh", "-ec", _MOUNT, str(self.root)]
        words += [shutil.which("chroot"), f"--userspec={self.user}", str(self.root), "/bin/sh", "-ec"]
        done = subprocess.run(
            [*words, f"cd {shlex.quote(self.directory)}; {command}"],
            env=self.environment | (_to_the_index() if builds else {}),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise subprocess.CalledProcessError(done.returncode, command, done.stdout[-2000:])
        return done.stdout

    def inside(self, path: str) -> pathlib.Path:
        return self.root / path.lstrip("/")

    def _copy(self, rest: str) -> None:
        *sources, target = rest.split()
        for source in sources:
            whole, place = recipes.CHECKOUT / source, self.inside(f"{self.directory}/{target}")
            if whole.is_dir():
                shutil.copytree(whole, place, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(whole, place / source if target.endswith("/") else place)


def _fresh_debian(root: pathlib.Path, *, release: str, folder: pathlib.Path) -> None:
    pristine = folder / release
    if not (pristine / "usr/bin/apt-get").exists():
        subprocess.run(["debootstrap", "--variant=minbase", release, pristine], check=True)
    shutil.rmtree(root, ignore_errors=True)
    subprocess.run(["cp", "--archive", "--reflink=auto", pristine, root], check=True)
    for name in ("/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf"):
        if pathlib.Path(name).exists():
            shutil.copy(name, root / name.lstrip("/"))
    (root / "etc/ssl").mkdir(exist_ok=True)
    shutil.copy("/etc/ssl/certs/ca-certificates.crt", root / _CERTIFICATES.lstrip("/"))


def _to_the_index() -> dict[str, str]:
    asked = {name: os.environ[name] for name in os.environ if name.lower().endswith("_proxy")}
    return asked | {"PIP_CERT": _CERTIFICATES, "PIP_DEFAULT_TIMEOUT": "180"}


def _retrains(image: _Image) -> Iterator[str]:
    raw = image.inside("/data/taxi/raw")
    for day in (1, 2, 3):
        subprocess.run([sys.executable, "-m", "demo.spans", f"--day={day}", f"--output={raw}"], check=True)
    shutil.copy(recipes.CHECKOUT / "demo/retraining.py", raw.parent)
    subprocess.run(["chown", "--recursive", image.user, raw.parent], check=True)
    image.run(
        "python -m beam_jobs.infer_schema --input=/data/taxi/raw --label=big_tip --name=trips"
        " --output=/data/taxi/schema.json"
    )
    call = "python -m pipeline.retrain reconcile --config=/data/taxi/retraining.py --root=/data/taxi"
    first, second = image.run(call).splitlines(), image.run(call).splitlines()
    [ended] = [line for line in first if line.startswith("cycle ") and "PROMOTE" in line]
    yield f"as {image.user}: {ended}"
    yield f"called again: {next(line for line in second if line == 'nothing is due')}"
