"""All crafted cases: files that somebody made to hurt, each by name."""

from collections.abc import Mapping

from tests.fuzz import hostile_datasets, hostile_files, hostile_rows, hostile_schemas, hostile_sizes
from tests.fuzz.case import Case

HOSTILE: Mapping[str, Case] = {
    case.name: case
    for family in (hostile_rows, hostile_files, hostile_sizes, hostile_schemas, hostile_datasets)
    for case in family.CASES
}
