"""A signal waits for the end of what must not be broken off; a second one does not."""

from tests.unit.base.cli.interrupt_test import ended

WORKS = """
import time
from pipeline.base.cli.signals import Deferred, Interrupted
def work():
    with Deferred() as signals:
        press(signal.SIGTERM)
        {}
    {}
handler.guard(work)
"""
TO_A_STOP = """while not signals.came():
            pass
        print("saved")
        """


def test_it_is_answered_where_the_work_can_stop():
    answers = TO_A_STOP + "raise Interrupted(signals.came(), 'saved at step 7')"
    assert ended(WORKS.format(answers, "print('goes on')")) == (143, "saved\n", 1)


def test_without_an_answer_it_ends_the_command_afterwards():
    assert ended(WORKS.format(TO_A_STOP, "time.sleep(60)")) == (143, "saved\n", 1)


def test_a_peer_that_got_none_ends_alike():
    alone = WORKS.replace("press(signal.SIGTERM)", "pass")
    assert ended(alone.format("raise Interrupted(15, 'saved')", "print('goes on')")) == (143, "", 1)


def test_a_second_one_ends_it_at_once():
    second = """interrupt._SECONDS_OF_ONE_REQUEST = 0.0
        press(signal.SIGTERM)
        while True:
            pass"""
    assert ended(WORKS.format(second, "pass")) == (143, "", 1)


def test_two_of_one_request_are_one():
    both = """press(signal.SIGTERM)
        time.sleep(0.2)
        print("saved")
        raise Interrupted(signals.came(), "saved")"""
    assert ended(WORKS.format(both, "print('goes on')")) == (143, "saved\n", 1)


def test_a_process_without_a_handler_has_none():
    code = """
from pipeline.base.cli.signals import Deferred
signal.signal(signal.SIGINT, signal.default_int_handler)
with Deferred() as signals:
    print(signals.came())
"""
    assert ended(code) == (0, "0\n", 0)
