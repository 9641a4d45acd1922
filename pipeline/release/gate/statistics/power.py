"""How many examples would decide what these did not."""

import math

from statsmodels.stats.power import normal_sample_size_one_tail

from pipeline.release.gate.statistics.estimates import Estimate

_MOST = 10**12  # examples; more is never


def deciding_examples(
    estimate: Estimate, *, null: float, rows: int, confidence: float, power: float
) -> int | None:
    """Examples like the `rows` that gave `estimate`, with which its interval would exclude `null`.

    With a chance of `power`, if the truth is as estimated: n = ((z of confidence + z of power) · s / d)²
    is the sample size of a test for means, as in S.-C. Chow, J. Shao and H. Wang, "Sample Size Calculations
    in Clinical Research" (2003), section 3.1. Clusters are counted, and turned into rows at their mean size.
    None where no number would do, or where the error is not known.
    """
    distance = abs(estimate.value - null)
    if not (distance > 0 and estimate.standard_error >= 0):  # NaN neither
        return None
    spread = estimate.standard_error * math.sqrt(estimate.units)
    units = normal_sample_size_one_tail(distance, power, (1 - confidence) / 2, std_null=spread)
    examples = units * rows / estimate.units
    return math.ceil(examples) if examples < _MOST else None
