"""The units through `systemd-analyze verify`, filled; and a planted mistake that it must find."""

import pathlib
import subprocess
from collections.abc import Iterator

from tests.commands.deploy import recipes

NEEDS = ("systemd-analyze",)
UNITS = ("penstock-retrain.service", "penstock-retrain.timer")


def check(folder: pathlib.Path) -> Iterator[str]:
    """Writes the units below `folder`; yields what was seen.

    Raises:
      ValueError: verify finds a mistake in them, or none in the planted one.
    """
    place = folder / "units"
    place.mkdir(parents=True, exist_ok=True)
    root = place / "root"
    root.mkdir(exist_ok=True)
    for name in UNITS:
        (place / name).write_text(recipes.filled(f"systemd/{name}", recipes.settings(root)))
    (place / "tell.service").write_text("[Service]\nType=oneshot\nExecStart=/bin/true\n")
    if found := _verify(place):
        raise ValueError(found)
    yield f"systemd-analyze verify: nothing said of {', '.join(UNITS)}"
    timer = _run("calendar", "*-*-* *:17:00")
    yield f"systemd-analyze calendar: {timer.splitlines()[1].strip()}"

    service = place / UNITS[0]
    text = service.read_text()
    for right, wrong in (("=75", "=750"), ("ExecStart=/", "ExecStart="), ("Restart=on", "Restart=of")):
        service.write_text(text.replace(right, wrong, 1))
        if not (said := _verify(place)):
            raise ValueError(f"{wrong} in place of {right} is not found")
        yield f"planted {wrong}: {said.splitlines()[0].rpartition(': ')[2]}"
    service.write_text(text)


def _verify(place: pathlib.Path) -> str:
    return _run("verify", "--man=no", *(str(place / name) for name in UNITS))


def _run(*arguments: str) -> str:
    done = subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).strip()
