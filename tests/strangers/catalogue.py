"""All strangers, by name."""

from collections.abc import Mapping

from tests.strangers import cells, dialects, labels, names, nested, pictures, places, texts
from tests.strangers.stranger import Stranger

_FAMILIES = (names, dialects, cells, labels, texts, nested, pictures, places)

STRANGERS: Mapping[str, Stranger] = {
    stranger.name: stranger for family in _FAMILIES for stranger in family.STRANGERS
}
