"""What the user should judge of a feature that is proposed."""

from collections.abc import Iterator

from beam_jobs.proposal.column_profile import ColumnProfile
from beam_jobs.proposal.datetimes import datetime_remarks
from pipeline.data.schema.datetime_kind import Datetime
from pipeline.data.schema.feature import Feature


def feature_remarks(profile: ColumnProfile, feature: Feature) -> Iterator[str]:
    """Remarks on any feature, each with what was counted."""
    odd = [marker for marker in feature.clean.null_markers if marker and marker in profile.counts]
    if odd:
        yield f"'{profile.name}': {', '.join(map(repr, odd))} is taken as missing."
    if profile.undecodable:
        yield (
            f"'{profile.name}': {profile.undecodable:,} values are not UTF-8 and will be rejected. "
            "Convert the file to UTF-8."
        )
    if isinstance(feature, Datetime):
        yield from datetime_remarks(profile, feature)
