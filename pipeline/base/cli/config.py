"""Turns errors in --config and --config.KEY=VALUE into InputErrors."""

import contextlib
import dataclasses
import inspect
import logging as py_logging
import pathlib
import re
import runpy
import sys
import traceback
import types
from collections.abc import Iterator, Mapping, Sequence, Set

from absl import flags, logging
from ml_collections import ConfigDict, config_dict, config_flags

from pipeline.base.errors import InputError, answer, did_you_mean
from pipeline.base.values import leaves

_CONFIG = "config"
_SEARCH = "SEARCH"  # the name in a config file for the ranges that it proposes
OPEN = ("model", "loss", "optimizer")  # sections that take any keyword argument of the code that they name
_CONFIGS = pathlib.Path(__file__).parents[2] / "configs"


def define_config(
    meaning: str, *, groups: Mapping[str, Sequence[str]] = types.MappingProxyType({})
) -> flags.FlagHolder:
    """Defines --config. ml_collections reads --flagfile there: a bad one ends the command.

    Args:
      groups: names of keys that a group may have, although a config file need not set them.
    """
    try:
        holder = config_flags.DEFINE_config_file(_CONFIG, None, meaning)
    except flags.CantOpenFlagFileError as error:
        raise SystemExit(answer(cannot_open_flagfile(error))) from None
    parser = flags.FLAGS[_CONFIG].parser
    parse = parser.parse
    parser.groups = groups

    def parse_clearly(path: str) -> ConfigDict:
        try:
            with _importing_beside(path), _without_a_warning():
                found = parse(config_file(path))
        except (OSError, SyntaxError, ImportError, InputError):  # answered where flags are read
            raise
        except (Exception, SystemExit) as error:  # the file is the user's code
            raise _fault_of_file(path, error) from None
        if not hasattr(found, "to_dict"):
            raise InputError(
                f"--config={path}",
                received=f"{found!r} from get_config()",
                expected="a ConfigDict",
                action="End get_config() with `return config`.",
            )
        return _with_open_keys(found, _argv())

    parser.parse = parse_clearly
    return holder


@contextlib.contextmanager
def _without_a_warning() -> Iterator[None]:
    """Hides that of ml_collections about a get_config() that returns None, whose error says more."""
    logger = logging.get_absl_logger()

    def is_shown(record: py_logging.LogRecord) -> bool:
        return "did you forget a return statement" not in record.getMessage()

    logger.addFilter(is_shown)
    try:
        yield
    finally:
        logger.removeFilter(is_shown)


def _groups() -> Mapping[str, Sequence[str]]:
    """The `groups` of define_config."""
    return getattr(flags.FLAGS[_CONFIG].parser, "groups", {}) if _CONFIG in flags.FLAGS else {}


def _argv() -> Sequence[str]:
    return flags.FLAGS.read_flags_from_files(sys.argv, force_gnu=False)


def _with_open_keys(config: ConfigDict, argv: Sequence[str]) -> ConfigDict:
    """Declares keys of the sections OPEN that only the command line has: they are a function's own arguments.

    Their values are read as Python literals, or else as text. Where the command line names another model,
    loss or optimizer than the file, the file's arguments do not belong to it, and are dropped.
    """
    sections = _open_sections(config, argv)
    for key in _overridden(argv):
        *groups, name = key.split(".")
        is_named = name in _groups().get(".".join(groups), ())
        if not groups or (groups[0] not in sections and not is_named):
            continue
        with config.unlocked():
            place = config
            for group in groups:
                if group not in place:
                    place[group] = ConfigDict()
                place = place[group]
            if isinstance(place, ConfigDict) and name not in place:
                place[name] = config_dict.placeholder(object)
    return config


def _open_sections(config: ConfigDict, argv: Sequence[str]) -> list[str]:
    """The sections where any key may stand; the file's arguments are dropped where the name is another.

    Where a section also has keys of its own, like `optimizer`, only code takes further keys: a
    `module:function`, or a class, whose name has capitals.
    """
    found, keys = [], get_config(str(_CONFIGS / "base.py"))
    for section in OPEN:
        if not isinstance(config.get(section), ConfigDict):
            continue
        flag, in_file = f"--config.{section}.name=", str(config[section].get("name", ""))
        name = next((each.removeprefix(flag) for each in reversed(argv) if each.startswith(flag)), in_file)
        if name != in_file:
            _drop(config, section, besides=set(keys[section]), argv=argv)
        if set(keys[section]) == {"name"} or ":" in name or name[:1].isupper():
            found.append(section)
    return found


def _drop(config: ConfigDict, section: str, *, besides: Set[str], argv: Sequence[str]) -> None:
    given = {key.split(".")[1] for key in _overridden([*argv, *_argv()]) if key.startswith(f"{section}.")}
    with config.unlocked():
        for name in set(config[section]) - given - besides:
            del config[section][name]


def _overridden(argv: Sequence[str]) -> list[str]:
    """The keys that a command line sets, in order."""
    given = (argument.removeprefix("--config.") for argument in argv if argument.startswith("--config."))
    return [each.partition("=")[0] for each in given]


def config_file(path: str) -> str:
    """Returns the path. If no such file exists, but one of pipeline/configs has that name, returns its
    path.
    """
    name, colon, argument = path.partition(":")  # after the colon: what get_config() receives
    shipped = _CONFIGS.parents[1] / name
    is_named = not pathlib.Path(name).exists() and shipped.is_relative_to(_CONFIGS) and shipped.is_file()
    return f"{shipped}{colon}{argument}" if is_named else path


def _without_argument(path: str) -> str:
    """The path of the config file alone, without what stands behind a colon."""
    return config_file(path).partition(":")[0]


@contextlib.contextmanager
def _importing_beside(path: str) -> Iterator[None]:
    """Lets a config import modules of its own folder; they come last, so that they hide none."""
    folder = str(pathlib.Path(_without_argument(path)).resolve().parent)
    if folder in sys.path:
        yield
        return
    sys.path.append(folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def shipped() -> list[str]:
    """`--config=` with each config that comes with the commands, which may be named from anywhere."""
    paths = sorted(_CONFIGS.rglob("[!_]*.py"))
    return [f"--config={path.relative_to(_CONFIGS.parents[1])}" for path in paths]


def cannot_open_flagfile(error: flags.CantOpenFlagFileError) -> InputError:
    """Returns the error, with what the system says in absl's message."""
    return InputError(
        "--flagfile",
        received=str(error).partition("Unable to open flagfile: ")[2] or str(error),
        expected="a file of flags, one a line",
        action="Correct the path.",
    )


@contextlib.contextmanager
def clear_config_errors(argv: Sequence[str]) -> Iterator[None]:
    """Raises InputError for the exceptions of ml_collections while the flags are read."""
    try:
        yield
        if _CONFIG in flags.FLAGS:
            # ml_collections reports an unreadable config file only when the config is first used.
            _ = flags.FLAGS[_CONFIG].value.is_locked if flags.FLAGS[_CONFIG].value else None
    except (AttributeError, KeyError, TypeError) as error:  # no such key, or a value of another type
        raise _wrong_key(argv, error) from None
    except ValueError as error:
        if "Could not parse" not in str(error):  # a key that is not a name in Python, such as init.from
            raise
        raise _wrong_key(argv, error) from None
    except (OSError, SyntaxError, ImportError) as error:
        raise _no_config_file(argv, error) from None


def config_of_file(flag: flags.Flag) -> ConfigDict:
    """The config as its file gives it, without what the command line sets."""
    return flag.parser.parse(flag.config_filename)


def get_config(path: str) -> ConfigDict:
    """Runs the config file at `path`, with what stands behind a colon; raises whatever its code raises."""
    name, colon, argument = config_file(path).partition(":")
    with _importing_beside(path):
        return runpy.run_path(name)["get_config"](*[argument] * bool(colon))


def values_of_file(path: str) -> dict[str, object]:
    """Returns the values of a config file by dotted key; raises InputError where it cannot be run."""
    try:
        return dict(config_leaves(get_config(path).to_dict()))
    except (OSError, SyntaxError, ImportError) as error:
        raise _no_config_file([f"--config={path}"], error) from None
    except (Exception, SystemExit) as error:  # the file is the user's code
        raise _fault_of_file(path, error) from None


def search_of_file(path: str) -> str:
    """The text of `--sweep` that the config file proposes; raises InputError if it proposes none."""
    with _importing_beside(path):
        proposed = runpy.run_path(_without_argument(path)).get(_SEARCH)
    if not isinstance(proposed, str):
        raise InputError(
            "--sweep=search",
            received=f"no text {_SEARCH} in {path}",
            expected="ranges of keys of the config",
            action="Name them: --sweep='config.optimizer.learning_rate=log(1e-4..1e-2)'.",
        )
    return proposed


def swept(config: ConfigDict, values: Mapping[str, str], *, flag: str = "--sweep") -> ConfigDict:
    """A copy of the config with other values, each written as after `--config.KEY=`.

    Raises:
      InputError: the config has no such key, or a value is not of its type; the flag is named.
    """
    argv = ["sweep", *(f"--config.{key}={value}" for key, value in values.items())]
    copied = _with_open_keys(config.copy_and_resolve_references(), argv)
    _check_swept(copied, values, flag)
    holders = flags.FlagValues()
    try:
        with clear_config_errors(argv):
            holder = config_flags.DEFINE_config_dict(_CONFIG, copied, flag_values=holders, sys_argv=argv)
            holders(argv)
            return holder.value
    except flags.Error as error:
        raise InputError(
            f"{flag}={' '.join(argv[1:])}",
            received=" ".join(str(error).split()),
            expected="values of the type of the config's own",
            action="--help lists the keys and their types.",
        ) from None


def _check_swept(config: ConfigDict, values: Mapping[str, str], flag: str) -> None:
    known = [name for name, _ in config_leaves(config.to_dict())]
    for key in values:
        if key not in known:
            raise _no_such_key(f"{flag}=config.{key}", key, known, form="config.{}")


def _wrong_key(argv: Sequence[str], error: Exception) -> InputError:
    """Names the first override whose key the config does not have."""
    known = _known_keys(argv)
    given = _overridden(argv)
    wrong = next((key for key in given if key not in known), None)
    if wrong and (names := _groups().get(wrong.rpartition(".")[0])):
        return InputError(
            f"--config.{wrong}",
            received="a key that the config does not have",
            expected=f"one of {', '.join(names)}",
            action=did_you_mean(wrong.rpartition(".")[2], names, otherwise="Correct it."),
        )
    if wrong is None:
        return InputError(
            f"--config.{' --config.'.join(given)}" if given else "--config",
            received=_innermost(error),
            expected="keys of the config, with values of the type of their defaults",
            action="--help lists the keys.",
        )
    return _no_such_key(f"--config.{wrong}", wrong, known, form="--config.{}")


def keys_below(key: str) -> list[str]:
    """The keys of a group such as `config.infra`, with the group's name in front; none for any other key."""
    group = key.removeprefix(f"{_CONFIG}.")
    known = [name for name in _known_keys(_argv()) if name.startswith(f"{group}.")]
    return [f"{_CONFIG}.{name}" for name in known]


_MISMATCH = re.compile(
    r"Could not override field '(?P<name>.*?)'.*?\. (?P<value>.*) is of original type <class '(?P<given>.*)'>"
    r" and cannot be casted to type <class '(?P<wanted>.*)'>",
    re.DOTALL,
)


def _frame_in(path: str, error: BaseException) -> traceback.FrameSummary | None:
    """The innermost frame of the config file in an error's traceback; None where it has none."""
    file = _without_argument(path)
    frames = [each for each in traceback.extract_tb(error.__traceback__) if each.filename == file]
    return frames[-1] if frames else None


def _line_of(path: str, error: BaseException) -> int | None:
    """The line of the config file where Python could not go on; None where it is in another file."""
    file = _without_argument(path)
    for each in (error, error.__cause__, error.__context__):
        if isinstance(each, SyntaxError) and each.filename in (file, str(pathlib.Path(file).absolute())):
            return each.lineno
        if each is not None and (frame := _frame_in(path, each)):
            return frame.lineno
    return None


def _fault_of_file(path: str, error: BaseException) -> InputError:
    """Names the line of the config file that fails; and the key, if its value is of another type."""
    # ml_collections replaces some errors by one of its own, whose text is the traceback.
    is_wrapped = str(error).startswith("Error whilst parsing config file")
    cause = error.__context__ if is_wrapped and isinstance(error.__context__, Exception) else error
    found, frame = _MISMATCH.search(str(cause)), _frame_in(path, cause)
    if found and frame:
        return _wrong_type(path, found, frame)
    said, keys = f"{type(cause).__name__}: {_innermost(cause)}", "`--help` lists the keys of the configs in"
    expected = "a file whose get_config() returns a config"
    if frame is None:
        lacks_it = isinstance(cause, AttributeError) and "'get_config'" in said
        return InputError(
            f"--config={path}",
            received="a file without get_config()" if lacks_it else said,
            expected=expected,
            action=f"Correct this file; {keys} pipeline/configs.",
        )
    return InputError(
        f"--config={path}, line {frame.lineno}",
        received=said,
        expected=expected,
        action=f"Correct this line; {keys} pipeline/configs.",
    )


def _wrong_type(path: str, found: re.Match, frame: traceback.FrameSummary) -> InputError:
    written = re.match(r"[\w.]+", frame.line or "")
    key = written[0] if written and written[0].endswith(found["name"]) else found["name"]
    value = repr(found["value"]) if found["given"] == "str" else found["value"]
    expected, action = f"a {_TYPES.get(found['wanted'], found['wanted'])}", "Correct it."
    if found["wanted"] == "tuple":
        expected, action = "a tuple", f"With a comma it is one: {key} = ({value},)."
    if found["wanted"].endswith(ConfigDict.__name__):
        expected, action = "a group of keys", f"Set its keys one by one: {key}.KEY = VALUE."
    return InputError(
        f"--config={path}, line {frame.lineno}, {key}",
        received=f"{value}, a {_TYPES.get(found['given'], found['given'])}",
        expected=expected,
        action=action,
    )


def _no_such_key(thing: str, key: str, known: Sequence[str], *, form: str) -> InputError:
    return InputError(
        thing,
        received="a key that the config does not have",
        expected="a key that --help lists",
        action=did_you_mean(key, known, otherwise="See --help.", form=form),
    )


def _known_keys(argv: Sequence[str]) -> list[str]:
    """Every key of the config file that `argv` names, groups of keys too; none if it cannot be read."""
    try:
        config = get_config(_given(argv))
    except (Exception, SystemExit):  # the file is the user's code, and only a suggestion depends on it
        return []
    leaves = [name for name, _ in config_leaves(config.to_dict())]
    named = [f"{group}.{name}" for group, names in _groups().items() for name in names]
    groups = {name.rpartition(".")[0] for name in leaves} | {*_groups()}
    return [*dict.fromkeys((*leaves, *named)), *sorted(groups - {""})]


def _given(argv: Sequence[str]) -> str:
    """The value of --config, or nothing."""
    for argument, following in zip(argv, [*argv[1:], ""], strict=True):
        name, equals, value = argument.lstrip("-").partition("=")
        if name == _CONFIG and argument.startswith("-"):
            return value if equals else following
    return ""


def _innermost(error: BaseException) -> str:
    """The message of the innermost error, around which others are wrapped, on one line."""
    first = error.args[0] if error.args else ""
    return _innermost(first) if isinstance(first, BaseException) else " ".join(str(first).split())


def _no_config_file(argv: Sequence[str], error: Exception) -> InputError:
    given = pathlib.Path(_given(argv))
    is_there, line = pathlib.Path(_without_argument(str(given))).exists(), _line_of(str(given), error)
    if is_there and line:
        cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
        said = cause.msg if isinstance(cause, SyntaxError) else " ".join(str(cause).split())
        return InputError(
            f"--config={given}, line {line}",
            received=f"{type(cause).__name__}: {said}",
            expected="a Python file with a function get_config()",
            action="Correct this line.",
        )
    names = [path.stem for path in _CONFIGS.glob("[!_]*.py")]
    return InputError(
        f"--config={given}",
        received="no such file" if not given.exists() else f"{type(error).__name__}: {_innermost(error)}",
        expected="a Python file with a function get_config()",
        action=did_you_mean(
            given.stem, names, otherwise="Start from one in pipeline/configs.", form="pipeline/configs/{}.py"
        ),
    )


# --- Keys of a config: name, type, default, and meaning, which is the comment in the config's own file.
#
# Keys that a config takes from a dataclass have their meanings there; the config's file passes them on as
# MEANINGS.


# `config.train.epochs = 10.0  # passes over the data`
_KEY = re.compile(r"\s*config\.(?P<key>[\w.]+) = .*?(?:  # (?P<comment>.*))?")
_COMMENT = re.compile(r"\s*# (?P<comment>.*)")
_TYPES = {
    "bool": "true or false",
    "float": "number",
    "int": "whole number",
    "str": "text",
    "tuple": "values, by commas",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Key:
    name: str  # such as train.epochs
    default: object
    meaning: str

    @property
    def type(self) -> str:
        """Describes a value of this key."""
        name = type(self.default).__name__
        return _TYPES.get(name, name)


def keys_of(module: types.ModuleType) -> tuple[Key, ...]:
    """Every key of the `get_config()` of `module`, in the order of its lines.

    The meaning is the comment at the end of a key's line, or else in the lines directly above it; or the one
    in MEANINGS of `module`, if it has any.
    """
    meanings = _with_inner(_meanings(inspect.getsource(module)), getattr(module, "MEANINGS", {}))
    values = dict(config_leaves(module.get_config().to_dict()))
    order = {name: number for number, name in enumerate(meanings)}
    names = sorted(values, key=lambda name: order.get(name, len(order)))
    return tuple(Key(name=name, default=values[name], meaning=_meaning(name, meanings)) for name in names)


def config_leaves(values: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Dotted names and values of everything in a config that is not itself a group of keys."""
    return ((name, value) for name, value in leaves(values) if not isinstance(value, Mapping))


def _meaning(name: str, meanings: Mapping[str, str]) -> str:
    """Returns the meaning of the key, or of the group that the config declares with the key in it."""
    return meanings.get(name) or meanings.get(name.rpartition(".")[0], "")


def _with_inner(meanings: Mapping[str, str], inner: Mapping[str, str]) -> dict[str, str]:
    """The meanings of keys; each is followed by those of the keys inside it."""
    merged: dict[str, str] = {}
    for name, meaning in meanings.items():
        merged[name] = meaning
        merged |= {key: each for key, each in inner.items() if key.startswith(f"{name}.")}
    return merged


def _meanings(source: str) -> dict[str, str]:
    found: dict[str, str] = {}
    above: list[str] = []
    for line in source.splitlines():
        if comment := _COMMENT.fullmatch(line):
            above.append(comment["comment"])
            continue
        if key := _KEY.fullmatch(line):
            found[key["key"]] = key["comment"] or " ".join(above)
        above = []
    return found
