"""The list of faults fits today's code; `python -m tests.planted` plants them."""

import ast

import pytest

from tests.planted.fault import FAULTS, ROOT, Fault


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_code_can_be_made_faulty_and_two_tests_are_there(fault: Fault):
    text = (ROOT / fault.path).read_text()
    assert ast.dump(ast.parse(fault.planted(text))) != ast.dump(ast.parse(text))
    assert len(set(fault.tests)) >= 2
    for test in fault.tests:
        path, name = test.split("::")
        assert f"def {name.partition('[')[0]}(" in (ROOT / path).read_text()


def test_code_that_has_changed_is_told():
    with pytest.raises(ValueError, match=r"holds 0 times"):
        FAULTS[0].planted("another text")
