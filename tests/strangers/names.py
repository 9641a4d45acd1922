"""Column names that people give: spaces, umlauts, twice the same, words of Python and of SQL."""

from tests.strangers.stranger import Stranger, csv_file, renamed, visits, with_column


def _table(**names: str):
    return csv_file(lambda: renamed(visits(), names))


STRANGERS = (
    Stranger(
        name="names_with_spaces",
        ugly="columns 'plan type', ' age ', 'visits (per year)'",
        write=_table(city="plan type", age=" age ", visits="visits (per year)"),
    ),
    Stranger(
        name="names_in_unicode",
        ugly="columns 'größe', '城市', 'номер', an emoji",
        write=_table(city="城市", age="größe", visits="визиты 🙂", bought="gekauft?"),
        infer=("--label=gekauft?",),
    ),
    Stranger(
        name="names_twice",
        ugly="two columns are called 'city'",
        write=csv_file(
            lambda: with_column(visits(), "other", lambda number, row: row["city"].lower()),
            header=("city", "age", "city", "visits", "bought"),
        ),
        ends=True,
    ),
    Stranger(
        name="names_that_collide",
        ugly="'a b', 'a_b' and 'A-B' become one identifier",
        write=_table(city="a b", age="a_b", visits="A-B"),
    ),
    Stranger(
        name="names_of_keywords",
        ugly="columns 'class', 'def', 'self', label 'import'",
        write=_table(city="class", age="def", visits="self", bought="import"),
        infer=("--label=import",),
    ),
    Stranger(
        name="names_of_ours",
        ugly="columns 'label', 'examples', 'inputs', 'predictions'",
        write=_table(city="examples", age="inputs", visits="predictions", bought="label"),
        infer=("--label=label",),
    ),
    Stranger(
        name="names_empty",
        ugly="a column without a name, as pandas writes its index",
        write=csv_file(lambda: with_column(visits(), "", lambda number, row: number)),
    ),
    Stranger(
        name="names_with_slashes",
        ugly="'km/h', '100%', 'a.b[0]', '$price'",
        write=_table(city="a.b[0]", age="km/h", visits="100%", bought="$price"),
        infer=("--label=$price",),
    ),
    Stranger(
        name="names_very_long",
        ugly="a name of 300 characters",
        write=_table(age="how old is the customer " * 12 + "in years"),
    ),
    Stranger(
        name="names_of_other_case",
        ugly="columns 'Age' and 'age'",
        write=csv_file(lambda: with_column(visits(), "Age", lambda number, row: number % 7)),
    ),
    Stranger(
        name="names_of_numbers",
        ugly="columns '2021', '2022', '1e5'",
        write=_table(age="2021", visits="2022", city="1e5"),
    ),
)
