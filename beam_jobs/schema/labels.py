"""Proposes the label of a table, classes or numbers; lists the columns that could be one."""

import bisect
import itertools
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence

from beam_jobs.schema.features import common_fields, decimals_of, flag_of, looks_like_text
from beam_jobs.schema.numbers import propose_written
from beam_jobs.schema.profiles import (
    ColumnProfile,
    excerpt,
    flags_of_values,
    is_number,
    is_whole_number,
    same_values,
    spelling_aliases,
)
from beam_jobs.schema.remarks import TRUTHS, delimiter_of, missing_remarks, twin_remarks, typo_remarks
from beam_jobs.sources.source import share_needed
from pipeline.base.errors import InputError
from pipeline.data.schema.feature import Clean
from pipeline.data.schema.feature_types import (
    LABEL_TASKS,
    MOST_RELEVANT,
    RANKING,
    RETRIEVAL,
    TASK_OF_SEVERAL,
    Label,
    declared_tasks,
)

MULTILABEL = "multilabel"
CLASSIFICATION = "classification"  # stands for binary or multiclass, whichever the number of classes asks for
TASKS = (CLASSIFICATION, *declared_tasks())

_NUMBERED_CLASSES = 20  # up to this many distinct whole numbers are classes
_CLASSES = 1000  # above this number of values, words are hardly classes, unless --task says so
_FEW_ROWS = 10  # up to this many rows, each class may have only one row
_FAR_CLASS = 3  # a class is far from the others if its distance is so many times their range
_LISTS = 1.2  # times as many different lists as classes in them: from here on, a label holds lists
_NEARLY_ALL = 0.95  # where one number has this part of the rows, there is little to predict
_FEW_FAR, _MOST_SQUARES = 0.02, 0.99  # part of the rows, and what they hold of all squared distances
_CANDIDATES = 5
_CANDIDATE_CLASSES = 100
# Words that mean "yes" but that the alphabet would put before the word for "no", which would then be
# positive.
_YES = frozenset({"ja", "j", "da", "да", "д", "evet", "igen", "ano"})
_NO = frozenset({"nein", "n", "nej", "nei", "nee", "nu", "ne", "нет", "н", "hayır", "nem"})
_NAMES = ("label", "target", "class", "y", "outcome", "survived", "result")


def propose_label(profile: ColumnProfile, *, task: str | None = None) -> Label:
    """A label of two or more classes or, for many different numbers, of a regression; `task` overrides this.

    A column of lists is a multilabel.

    Raises InputError if the column's values do not suit the task.
    """
    if task == MULTILABEL or (task is None and profile.holds_lists):
        return _propose_multilabel(profile)
    values = set(profile.values)
    written = propose_written(profile) if task in (None, "regression") and len(values) > 2 else None
    if written:
        return Label(name=profile.name, task="regression", clean=written.clean, evidence=written.evidence)
    if task == RETRIEVAL:
        return _propose_items(profile)
    if task == RANKING:
        return _propose_relevance(profile)
    ends_in_dots = profile.numbers is None and len({value.rstrip(".") for value in values}) < len(values)
    if ends_in_dots:
        # Adult's test file has a point after each class.
        values = {value.rstrip(".") for value in values}
    aliases = spelling_aliases(profile.values) | _number_aliases(profile) if not ends_in_dots else {}
    values -= aliases.keys()
    common = {
        "name": profile.name,
        "clean": Clean(
            strip=Clean.strip + ("." if ends_in_dots else ""),
            null_markers=common_fields(profile)["clean"].null_markers,
            aliases=aliases,
        ),
        "evidence": profile.evidence(),
    }
    if task is None:
        _check_no_words_among_numbers(profile)
    task = _task(profile, values, task)
    if not LABEL_TASKS[task].classes[-1]:
        return Label(**common, task=task)
    return Label(**common, task=task, classes=in_natural_order(values))


def _check_no_words_among_numbers(profile: ColumnProfile) -> None:
    """Raises InputError where a few words keep numbers with decimals from being predicted as numbers."""
    kept = same_values(profile.counts, profile.kept)
    odd = sorted(value for value in profile.values if not is_number(value) and value not in kept)
    fractions = decimals_of(profile)
    if odd and len(fractions) > max(_NUMBERED_CLASSES, len(profile.values) / 2):
        rows = sum(profile.values[value] for value in odd)
        raise InputError(
            f"--label={profile.name}",
            received=f"{len(fractions):,} numbers, and {', '.join(map(repr, odd[:3]))} ({rows:,} rows)",
            expected="numbers alone, or classes",
            action="If these mean that there is no label: "
            f"{flags_of_values('missing', profile, odd[:3])}. To have their rows rejected: "
            f"{flag_of('numeric', profile.name)}. To predict classes: --task={CLASSIFICATION}.",
        )


def _number_aliases(profile: ColumnProfile) -> dict[str, str]:
    """Maps 1.0 to 1 where few whole numbers have several spellings: pandas writes 1.0 beside empty cells."""
    numbers = {*(profile.numbers or ())}
    if not 0 < len(numbers) <= _NUMBERED_CLASSES or not all(map(float.is_integer, numbers)):
        return {}
    usual = {float(value): value for value in sorted(profile.values, key=len, reverse=True)}
    return {value: usual[float(value)] for value in profile.values if usual[float(value)] != value}


def _propose_items(profile: ColumnProfile) -> Label:
    """A label whose classes are items. Names that differ in case only are two items."""
    if not profile.holds_lists:
        _task(profile, {*profile.values}, RETRIEVAL)
    else:
        raise _unsuitable(profile, f"--task={RETRIEVAL}", _counted(profile, set()), "one item a row")
    return Label(
        name=profile.name,
        task=RETRIEVAL,
        classes=in_natural_order(profile.values),
        clean=Clean(null_markers=common_fields(profile)["clean"].null_markers),
        evidence=profile.evidence(),
    )


def _propose_relevance(profile: ColumnProfile) -> Label:
    """A label of whole numbers that say how relevant a row is; yes and no are 1 and 0."""
    aliases = _relevances(profile.values)
    numbers = [] if aliases is None else sorted({*_relevance_of(profile.values, aliases).values()})
    if (
        len(numbers) < 2
        or not all(map(float.is_integer, numbers))
        or numbers[0] < 0
        or numbers[-1] > MOST_RELEVANT
    ):
        low, high = (profile.numbers[0], profile.numbers[-1]) if profile.numbers else (0.0, 0.0)
        flag = flags_of_values("missing", profile, [f"{low:g}"])
        raise InputError(
            f"--label={profile.name}",
            received=f"numbers from {low:g} to {high:g}" if profile.numbers else _words(profile),
            expected=f"whole numbers from 0, not relevant, to {MOST_RELEVANT} at most, which differ",
            action="Write how relevant a row is as 0, 1, 2 …"
            + (f"; or {flag}, if that means that nobody knows." if low < 0 else "."),
        )
    clean = Clean(null_markers=common_fields(profile)["clean"].null_markers, aliases=aliases)
    return Label(name=profile.name, task=RANKING, clean=clean, evidence=profile.evidence())


def _relevances(values: Iterable[str]) -> dict[str, str] | None:
    """Maps spellings of a relevance to whole numbers: 1.0, as pandas writes it beside empty cells, and yes or
    no. None where a value is no number.
    """
    if all(value.casefold() in TRUTHS[0] | TRUTHS[1] for value in values):
        words = {value: str(int(value.casefold() in TRUTHS[1])) for value in values}
        return {value: number for value, number in words.items() if value != number}
    if not all(map(is_number, values)):
        return None
    points = {f"{number}.0": str(number) for number in range(MOST_RELEVANT + 1)}
    return points if points.keys() & {*values} else {}


def _relevance_of(values: Iterable[str], aliases: Mapping[str, str]) -> dict[str, float]:
    return {value: float(aliases.get(value, value)) for value in values}


def _propose_multilabel(profile: ColumnProfile) -> Label:
    names = (
        {name: n for name, n in profile.item_counts.items() if name}
        if profile.holds_lists
        else profile.values
    )
    others = profile.item_others if profile.holds_lists else profile.others
    flag, delimiter = f"--label={profile.name}", _delimiter(profile)
    if delimiter:
        raise InputError(
            flag,
            received=f"text with {delimiter!r} between the words, for --task={MULTILABEL}",
            expected="lists of names, or what stands between them",
            action=f"Add {shlex.quote(f'--list_delimiter={profile.name}={delimiter}')}.",
        )
    if names and names.keys() <= {"0", "1"} and len(profile.lengths.keys() - {0}) == 1:
        raise InputError(
            flag,
            received=f"lists of {max(profile.lengths)} numbers that are 0 or 1",
            expected="lists of the names of a row's classes",
            action="Write the names where there is a 1, or give each class a column and name them all: "
            "--label=A,B.",
        )
    if others or not 2 <= len(names) <= _CLASSES or (profile.holds_lists and profile.items == "numbers"):
        number = f"{len(names):,}{' or more' * bool(others)}"
        of_lists = f"{_without_single_values(profile)}, {number} of them different"
        received = of_lists if profile.holds_lists else _counted(profile, {*names})
        raise _unsuitable(profile, flag, received, f"lists of 2 to {_CLASSES:,} classes")
    aliases = spelling_aliases(names)
    markers = common_fields(profile)["clean"].null_markers
    return Label(
        name=profile.name,
        task=MULTILABEL,
        classes=in_natural_order(names.keys() - aliases.keys()),
        delimiter=profile.delimiter,
        clean=Clean(null_markers=markers, aliases=aliases),
        evidence=profile.evidence(),
    )


def propose_labels(profiles: Sequence[ColumnProfile], *, task: str | None = None) -> list[Label]:
    """The labels of the columns that are predicted together: all numbers, or all of two classes.

    Raises InputError if they are neither.
    """
    if not profiles:
        return []
    if len(profiles) == 1:
        return [propose_label(profiles[0], task=task)]
    are_binary = all(len(profile.values) == 2 and not profile.holds_lists for profile in profiles)
    by_look = "binary" if are_binary else "regression"
    each = by_look if task is None else {MULTILABEL: "binary", CLASSIFICATION: "binary"}.get(task, task)
    others = [profile for profile in profiles if each == "regression" and not _are_numbers(profile)]
    # Beside columns of two classes, the one with more or fewer is at fault.
    others.sort(key=lambda profile: len(profile.values) == 2)
    if each not in TASK_OF_SEVERAL or others:
        names = ",".join(profile.name for profile in profiles)
        raise InputError(
            f"--label={names}",
            received=f"'{others[0].name}', which is {_kind(others[0])}" if others else f"--task={task}",
            expected="several labels that are all numbers (--task=regression), or all of two classes "
            f"(--task={MULTILABEL})",
            action=f"Choose columns that suit, or one label: --label={profiles[0].name}.",
        )
    return [propose_label(profile, task=each) for profile in profiles]


def _are_numbers(profile: ColumnProfile) -> bool:
    """Whether all values are numbers, or written as people write them: `1.234,5`."""
    return bool(profile.numbers) or (not profile.holds_lists and propose_written(profile) is not None)


def _kind(profile: ColumnProfile) -> str:
    """What a column that is no number holds."""
    if profile.holds_lists:
        return "lists"
    return f"{len(profile.values):,} different words" if len(profile.values) != 1 else "one value in all rows"


def task_of(classes: Iterable[str]) -> str:
    """The task of a label with these classes."""
    return "binary" if len(set(classes)) == 2 else "multiclass"


def in_natural_order(classes: Iterable[str]) -> tuple[str, ...]:
    """Sorts numbers by size, words by alphabet, "no" before "yes"; the second of two is positive."""
    classes = list(classes)
    try:
        return tuple(sorted(classes, key=lambda value: (float(value), value)))
    except ValueError:
        ordered = sorted(classes)
    folded = [word.casefold() for word in ordered]
    swapped = len(folded) == 2 and folded[0] in _YES and folded[1] in _NO
    return tuple(reversed(ordered) if swapped else ordered)


def missing_label_remarks(profile: ColumnProfile, label: Label) -> Iterator[str]:
    """Yields remarks on values that count as a missing label, or that may mean one and would be predicted."""
    yield from missing_remarks(profile, label)
    if odd := _odd_class(profile, label):
        yield (
            f"'{profile.name}': class {odd} ({profile.counts[odd]:,} of {profile.rows:,} rows) is unlike the "
            f"others. If it means that there is no label: {shlex.quote(f'--missing={profile.name}={odd}')}."
        )
    missing = profile.without_list if label.shape else profile.missing
    if label.shape and profile.empty_lists:
        yield (
            f"'{profile.name}': {profile.empty_lists:,} of {profile.rows:,} rows have no class, which is an "
            "answer, too. Where it means that the classes are not known, leave these rows out of the data."
        )
    if missing:
        share = share_needed(missing, profile.rows)
        yield (
            f"'{profile.name}': {missing:,} {'row has' if missing == 1 else 'rows have'} no label and will "
            f"be left out: convert needs --max_unlabelled_fraction={share:g}."
        )


def _odd_class(profile: ColumnProfile, label: Label) -> str:
    """Returns the class of few numbers that is -1 … -9 or far from all others; empty if none is."""
    if not label.classes or not profile.numbers or len(profile.numbers) < 3 or profile.far_values:
        return ""
    low, *others = profile.numbers
    *rest, high = profile.numbers
    is_code = -9 <= low < 0 <= others[0]
    is_far = high - rest[-1] > _FAR_CLASS * max(1, rest[-1] - rest[0])
    number = low if is_code else high
    odd = [value for value in label.classes if float(value) == number] if is_code or is_far else []
    return odd[0] if odd and not same_values(profile.counts, profile.kept) & {*odd} else ""


def label_remarks(profile: ColumnProfile, label: Label, *, is_alone: bool = True) -> Iterator[str]:
    """Yields what the user should check of a proposed label, and how to change it.

    `is_alone`: no other column is predicted with it.
    """
    if "." in label.clean.strip:
        yield f"'{label.name}': a '.' at the end is stripped, which merges classes."
    if label.classes and (delimiter := _delimiter(profile)):
        flag = shlex.quote(f"--list_delimiter={label.name}={delimiter}")
        yield (
            f"'{label.name}': the cells look like lists between {delimiter!r}, and each different list is a "
            f"class. To predict any number of classes a row (multilabel): {flag}."
        )
    counts = profile.item_counts if profile.holds_lists else profile.counts
    once = [value for value in label.classes if counts.get(value) == 1]
    if once and not label.is_retrieval:
        yield (
            f"'{label.name}': {len(once):,} of {len(label.classes):,} classes "
            f"{'has one row' if len(once) == 1 else 'have one row each'}, such as {excerpt(once[0])!r}: a "
            "model cannot be evaluated on them."
        )
    if label.classes and not (label.shape or label.is_retrieval):
        yield from typo_remarks(profile, label)
    if label.positive_class:
        yield f"'{label.name}': the positive class is {label.positive_class!r}. If not, swap 'classes'."
    usual = max(profile.counts, key=profile.counts.__getitem__, default="")
    if not label.classes and profile.counts.get(usual, 0) >= _NEARLY_ALL * profile.rows:
        yield (
            f"'{label.name}': {profile.counts[usual]:,} of {profile.rows:,} rows have {usual}: there is "
            "little to predict, and an error of few rows decides its metrics."
        )
    elif not label.classes and not label.is_ranking:
        yield from _far_remarks(profile)
    if label.is_ranking:
        found = _relevance_of(profile.values, label.clean.aliases)
        zeros = sum(count for value, count in profile.values.items() if found[value] == 0)
        yield (
            f"'{label.name}': relevance up to {max(found.values()):g}; r counts 2^r - 1. "
            f"{zeros:,} of {profile.rows:,} rows are not relevant."
        )
        return
    if label.is_retrieval:
        yield from twin_remarks(profile, profile.values, what="items")
        return
    count = len({*(profile.numbers or ())})
    if not is_alone or count <= 2:
        return
    low, high = profile.numbers[0], profile.numbers[-1]
    seen = f"'{label.name}': {count:,} different numbers, {low:g} … {high:g}"
    if label.classes:
        yield f"{seen}, are taken as classes. To predict a number instead: --task=regression."
    else:
        yield f"{seen}, are predicted as a number. To predict classes instead: --task={CLASSIFICATION}."


def _far_remarks(profile: ColumnProfile) -> Iterator[str]:
    """Says that few numbers are so far from the others that a squared error sees them alone."""
    ordered = sorted((float(value), rows) for value, rows in profile.values.items() if profile.numbers)
    below = list(itertools.accumulate(rows for _, rows in ordered))
    largest = max((abs(number) for number, _ in ordered), default=0.0)
    if not largest:
        return
    median = ordered[bisect.bisect_left(below, below[-1] / 2)][0]
    # In parts of the largest number: squares of the numbers themselves may be beyond float64.
    squares = [(rows * (number / largest - median / largest) ** 2, number, rows) for number, rows in ordered]
    total, held, few = sum(square for square, *_ in squares), 0.0, 0
    for square, number, rows in sorted(squares, reverse=True):
        held, few = held + square, few + rows
        if few > _FEW_FAR * below[-1]:
            return
        if held > _MOST_SQUARES * total:
            yield (
                f"'{profile.name}': {few:,} of {below[-1]:,} rows, such as {number:g}, hold "
                f"{held / total:.1%} of the squared distances from the median, {median:g}: a squared error "
                "sees little else. If such numbers are wrong, leave their rows out of the data; if they are "
                "right, predict a column of their logarithms."
            )
            return


def _delimiter(profile: ColumnProfile) -> str:
    """What stands between the classes where a label's text looks like lists of them; empty if it does not."""
    return "" if profile.holds_lists else delimiter_of(profile, lists=_LISTS)


def candidates(profiles: Sequence[ColumnProfile]) -> str:
    """A remark that lists the columns which could be the label, the likeliest first."""
    found = [profile for profile in profiles if _could_be_label(profile)]
    found.sort(key=lambda profile: (profile.name.lower() not in _NAMES, len(profile.values) != 2))
    listed = "; ".join(f"'{profile.name}' ({_format_candidate(profile)})" for profile in found[:_CANDIDATES])
    more = f" and {len(found) - _CANDIDATES} more" if len(found) > _CANDIDATES else ""
    what = f"Candidates: {listed}{more}." if found else "No column looks like one."
    return f"There is no label, so a model has nothing to predict. {what} Run again with --label=COLUMN."


def _format_candidate(profile: ColumnProfile) -> str:
    try:
        label = propose_label(profile)
    except InputError:
        return f"{len(profile.values):,} values"
    if not label.classes:
        return label.task
    first = ", ".join(map(excerpt, label.classes[:3])) + (" …" if len(label.classes) > 3 else "")
    return f"{len(label.classes):,} classes: {first}"


def _could_be_label(profile: ColumnProfile) -> bool:
    if profile.are_images or profile.holds_lists or len(profile.values) < 2:
        return False
    repeats = len(profile.values) <= min(_CANDIDATE_CLASSES, sum(profile.values.values()) // 2)
    return repeats or bool(profile.numbers) or (len(profile.values) <= 3 and not looks_like_text(profile))


def _task(profile: ColumnProfile, values: set[str], requested: str | None) -> str:
    """The task of LABEL_TASKS; raises InputError where the values do not suit it."""
    task = requested or _task_by_look(profile, values)
    if task == CLASSIFICATION:
        task = task_of(values)
    rules = LABEL_TASKS[task]
    if not rules.classes[-1]:
        if not profile.numbers:
            raise _unsuitable(profile, f"--task={requested}", _words(profile), "numbers to predict")
    elif len(values) not in rules.classes:
        raise _unsuitable(profile, f"--label={profile.name}", _counted(profile, values), rules.expected)
    elif profile.others or (not requested and len(values) > _CLASSES):
        expected = f"numbers, or 2 to {_CLASSES:,} classes"
        raise _unsuitable(profile, f"--label={profile.name}", _counted(profile, values), expected)
    elif len(values) == sum(profile.values.values()) > _FEW_ROWS:
        received = f"{len(values):,} classes of one row each, such as {excerpt(min(values))}"
        raise _unsuitable(profile, f"--label={profile.name}", received, "classes of several rows")
    return task


def _task_by_look(profile: ColumnProfile, values: set[str]) -> str:
    many = len(values) > _NUMBERED_CLASSES or not all(map(is_whole_number, values))
    many |= len(values) == sum(profile.values.values()) > _FEW_ROWS
    return "regression" if profile.numbers and many and len(values) > 2 else CLASSIFICATION


def _counted(profile: ColumnProfile, values: set[str]) -> str:
    """Describes the column by its values and its number of rows, because the rows may be too few."""
    if profile.holds_lists or not values:
        return _without_single_values(profile)
    if len(values) == 1:
        return (
            f"one value, {excerpt(*values)!r}, in all {profile.rows - profile.missing:,} rows that have any"
        )
    return f"{len(values):,} different values in {profile.rows:,} rows"


def _words(profile: ColumnProfile) -> str:
    """Describes the column by some of its values, those first that are no numbers."""
    if profile.holds_lists or not profile.values:
        return _without_single_values(profile)
    some = [repr(excerpt(value)) for value in sorted(profile.values, key=is_number)[:3]]
    return f"{len(profile.values):,} different values such as {', '.join(some)}"


def _without_single_values(profile: ColumnProfile) -> str:
    if profile.holds_lists:
        return f"lists of up to {max(profile.lengths):,} values"
    return f"no value in any of {profile.rows:,} rows"


def _unsuitable(profile: ColumnProfile, thing: str, received: str, expected: str) -> InputError:
    action = f"Give more rows, another column than '{profile.name}', or another --task ({', '.join(TASKS)})."
    return InputError(thing, received=received, expected=expected, action=action)
