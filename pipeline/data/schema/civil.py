"""Calendar arithmetic on whole arrays: only operators, so that NumPy and TensorFlow run the same formulas.

Arguments and results are int64 arrays or tensors of one shape. Days count from 1970-01-01, in the Gregorian
calendar extended to earlier years. After H. Hinnant, "chrono-Compatible Low-Level Date Algorithms".
"""

from typing import TypeVar

Numbers = TypeVar("Numbers")  # np.ndarray or tf.Tensor, int64

SECOND = 1_000_000  # microseconds
DAY = 86_400 * SECOND
NOT_A_TIME = -(1 << 63)  # stands for a missing time; NumPy's NaT is the same number
_MINUTE = 60 * SECOND
# Years 1 to 9999 on the clocks of any zone, which are ahead of UTC or behind it by less than a day.
FIRST, LAST = -719_163 * DAY + _MINUTE, 2_932_898 * DAY - _MINUTE - 1

_FROM_MARCH_OF_YEAR_0 = 719_468  # days to 1970-01-01
_DAYS_OF_400_YEARS = 146_097


def days(year: Numbers, month: Numbers, day: Numbers) -> Numbers:
    """Days of a date; `month` must be 1 … 12, `day` may be any number."""
    months = (month + 9) % 12  # from March, so that a leap day is the last of its year
    year = year - months // 10
    leap_days = year // 4 - year // 100 + year // 400
    return 365 * year + leap_days + (306 * months + 5) // 10 + day - 1 - _FROM_MARCH_OF_YEAR_0


def days_of_month(year: Numbers, month: Numbers) -> Numbers:
    """How many days the month has."""
    return days(year + month // 12, month % 12 + 1, 1) - days(year, month, 1)


def month_index(days: Numbers) -> Numbers:
    """The month of a day: 0 is January."""
    day = (days + _FROM_MARCH_OF_YEAR_0) % _DAYS_OF_400_YEARS
    year = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    day = day - (365 * year + year // 4 - year // 100)
    return ((5 * day + 2) // 153 + 2) % 12


def weekday_index(days: Numbers) -> Numbers:
    """The day of the week of a day: 0 is Monday."""
    return (days + 3) % 7
