"""Other engines than the embedded one, where `make engines` has installed them: same bytes, same refusals."""

import pathlib
from collections.abc import Callable

import pytest

from tests.shared.engines import LOOPBACK_ENGINES, Engine
from tests.shared.fixtures.raw_data import Ended, people_csv
from tests.shared.published import differences

Convert = Callable[..., Ended]


def installed(engine: Engine) -> pytest.param:
    skip = pytest.mark.skipif(bool(engine.missing), reason=engine.missing)
    return pytest.param(engine, id=engine.name, marks=skip)


@pytest.mark.slow
@pytest.mark.parametrize("engine", [installed(engine) for engine in LOOPBACK_ENGINES])
def test_same_bytes_on_every_engine(convert_people: Convert, people: pathlib.Path, engine: Engine):
    assert convert_people().code == 0
    (people / "out").rename(people / "embedded")
    ended = convert_people(*engine.flags)
    assert (ended.code, ended.err) == (0, "")
    assert differences(people / "embedded", people / "out") == []


@pytest.mark.slow
@pytest.mark.parametrize("engine", [installed(LOOPBACK_ENGINES[0])])
def test_bad_input_on_a_worker_ends_in_the_same_line(
    convert_people: Convert, people: pathlib.Path, engine: Engine
):
    (people / "people.csv").write_bytes(people_csv().replace(b"city", b"town"))
    embedded, ended = convert_people(), convert_people(*engine.flags)
    assert (embedded.code, ended.code) == (2, 2)
    assert ended.err.endswith(f"\n{embedded.err}")  # after what the engine itself has to say
    assert not (people / "out").exists()
