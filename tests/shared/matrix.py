"""Cases of a test of which `make test` runs a few, because each takes long; `make test-all` runs all."""

from collections.abc import Collection, Iterable

import pytest


def quick_cases(cases: Iterable[object], quick: Collection[object]) -> list[object]:
    """The cases for `pytest.mark.parametrize`, all but the quick ones marked slow."""
    cases = list(cases)
    assert set(quick) <= set(cases)
    return [
        case
        if case in quick
        else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
        for case in cases
    ]
