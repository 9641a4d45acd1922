"""The errors that the code can raise, read from its source: no code is run.

An `InputError` says four things: the thing, what was received, what was expected, what to do now. Each is a
text, an f-string or a name. A name is followed to its value, and to the callers of a function that gets it.
What only a run knows becomes `…`.
"""

import ast
import collections
import dataclasses
import functools
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence

from tests.house.imports import HOUSE, module_of

ANY = "…"  # what only a run knows
_FIELDS = ("thing", "received", "expected", "action")
_MOST_ALTERNATIVES = 6  # of one part
_MOST_HOPS = 3  # from a function that makes an error to its callers
_KEEPS_TEXT = ("lstrip", "rstrip", "strip", "removeprefix", "removesuffix", "replace", "format")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Message:
    """An error. `…` stands for any text; the parts have the form in which they are printed."""

    path: str  # of the code that raises it, or that calls what raises it
    line: int
    thing: str
    received: str
    expected: str
    actions: tuple[str, ...]  # which one is printed depends on the case

    @property
    def begins(self) -> str:
        return f"{self.thing}: received {self.received}"

    @property
    def words(self) -> str:
        """What all errors of this kind have in common, in lower case, for sorting and searching."""
        return " ".join(re.findall(r"[\w.=-]+", self.begins.replace(": received ", " ").lower()))


_NOTHING = Message(path="", line=0, thing=ANY, received=ANY, expected=ANY, actions=(ANY,))


@dataclasses.dataclass(frozen=True, eq=False)
class Scope:
    """Where an expression stands.

    Attributes:
      path: of its file.
      function: the innermost function around it; None: the module.
      given: the arguments of the function, each with the scope of the call.
    """

    path: str
    function: ast.FunctionDef | None = None
    given: Mapping[str, tuple[ast.expr, "Scope"]] = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def outermost(self) -> str:
        """The file that the first of the calls stands in."""
        for _, outer in self.given.values():
            return outer.outermost
        return self.path

    @functools.cached_property
    def parameters(self) -> tuple[str, ...]:
        if self.function is None:
            return ()
        args = self.function.args
        return tuple(each.arg for each in (*args.posonlyargs, *args.args, *args.kwonlyargs))


@functools.cache
def tree(path: str) -> ast.Module:
    """The syntax of a file of the product; those of tests, which take longer, are not read."""
    return ast.parse(HOUSE.texts[path], filename=path)


def pattern(text: str) -> re.Pattern[str]:
    """What matches a printed text of this form."""
    return re.compile(".*".join(map(re.escape, text.split(ANY))), re.DOTALL)


def messages() -> tuple[Message, ...]:
    """Every error that the product can raise, each once, by file and line."""
    found: dict[tuple, Message] = {}
    for path in HOUSE.product:
        for call, function in _calls(path):
            if _makes_error(call):
                for message in _messages_of(call, Scope(path, function)):
                    key = (message.begins, message.expected, message.actions)
                    if set(key) != {_NOTHING.begins, ANY, (ANY,)}:
                        found.setdefault(key, message)
    return tuple(found.values())


# --- Calls that make an error.


@functools.cache
def _calls(path: str) -> tuple[tuple[ast.Call, ast.FunctionDef | None], ...]:
    """Every call in a file, with the innermost function around it."""
    return tuple(_calls_in(tree(path), None))


def _calls_in(node: ast.AST, function: ast.FunctionDef | None) -> Iterator:
    inner = node if isinstance(node, ast.FunctionDef) else function
    if isinstance(node, ast.Call):
        yield node, function
    for child in ast.iter_child_nodes(node):
        yield from _calls_in(child, inner)


def _makes_error(call: ast.Call) -> bool:
    """Whether a class is called as `InputError` is: one argument, and three by their names."""
    names = {each.arg for each in call.keywords}
    return (
        len(call.args) == 1
        and {"received", "expected", "action"} == names
        and not _last_name(call.func).startswith("_")
    )


def _messages_of(call: ast.Call, scope: Scope) -> Iterator[Message]:
    parts = {each.arg: each.value for each in call.keywords} | {"thing": call.args[0]}
    handed_on = [name for part in parts.values() if (name := _parameter(part, scope))]
    for bound in _bound(scope, handed_on, hops=_MOST_HOPS):
        texts = {name: _texts(part, bound) for name, part in parts.items()}
        for thing, received in itertools.product(_known(texts["thing"]), _values(texts, handed_on)):
            yield Message(
                path=bound.outermost,
                line=call.lineno,
                thing=thing,
                received=received,
                expected=" / ".join(_known(texts["expected"])),
                actions=tuple(_known(texts["action"])),
            )


def _known(texts: Sequence[str]) -> Sequence[str]:
    return [text for text in texts if text != ANY] or [ANY]


def _values(texts: Mapping[str, Sequence[str]], handed_on: Sequence[str]) -> list[str]:
    """What may be received. A word that a caller hands on is an example or a default: others may come."""
    is_word = {text: " " not in text and text not in ("none", "nothing") for text in texts["received"]}
    found = [ANY if handed_on and is_word[text] else text for text in texts["received"]]
    if texts["thing"] == [ANY]:
        return list(_known(found))
    return list(dict.fromkeys(found))


def _parameter(part: ast.expr, scope: Scope) -> str:
    """The parameter of the function that an expression is, or is made from by `or`; "" if none."""
    values = part.values if isinstance(part, ast.BoolOp) else [part]
    names = [each.id for each in values if isinstance(each, ast.Name)]
    return next((name for name in names if name in scope.parameters and name not in scope.given), "")


# --- Callers of the functions that make errors.


def _bound(scope: Scope, names: Sequence[str], *, hops: int) -> list[Scope]:
    """The scope once for each call of its function, where `names` are arguments that the calls give."""
    if not names or not hops:
        return [scope]
    found = []
    for call, caller in _callers(scope):
        arguments = _arguments(call, scope)
        on = [name for each in names if (name := _parameter(arguments.get(each, call), caller))]
        for outer in _bound(caller, on, hops=hops - 1):
            given = {name: (value, outer) for name, value in arguments.items()}
            found.append(Scope(scope.path, scope.function, given))
    return found or [scope]


def _callers(scope: Scope) -> Iterator[tuple[ast.Call, Scope]]:
    for path, call, function in _calls_by_name().get(scope.function.name, ()):
        if path == scope.path or _comes_from(ast.unparse(call.func), path, scope.path):
            yield call, Scope(path, function)


@functools.cache
def _calls_by_name() -> Mapping[str, Sequence[tuple[str, ast.Call, ast.FunctionDef | None]]]:
    found = collections.defaultdict(list)
    for path in HOUSE.product:
        for call, function in _calls(path):
            found[_last_name(call.func)].append((path, call, function))
    return found


def _last_name(function: ast.AST) -> str:
    return getattr(function, "attr", None) or getattr(function, "id", "")


def _comes_from(called: str, path: str, origin: str) -> bool:
    """Whether a name that `path` uses, such as `errors.unknown_name`, is one of the file `origin`."""
    first = called.partition(".")[0]
    wanted = module_of(origin)
    return _imported(path).get(first, "") in (wanted, f"{wanted}.{called}")


@functools.cache
def _imported(path: str) -> Mapping[str, str]:
    """What each imported name of a file stands for, dotted."""
    found = {}
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom):
            found |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    return found


def _arguments(call: ast.Call, scope: Scope) -> dict[str, ast.expr]:
    """The arguments of a call by the names of the function's parameters, defaults among them."""
    args = scope.function.args
    positional = [each.arg for each in (*args.posonlyargs, *args.args) if each.arg not in ("self", "cls")]
    defaults = zip(reversed(positional), reversed(args.defaults), strict=False)
    by_name = zip([each.arg for each in args.kwonlyargs], args.kw_defaults, strict=True)
    found = {name: value for name, value in (*defaults, *by_name) if value is not None}
    found |= dict(zip(positional, call.args, strict=False))
    return found | {each.arg: each.value for each in call.keywords if each.arg}


# --- What an expression is as text.


def _texts(part: ast.expr, scope: Scope, hops: int = _MOST_HOPS) -> list[str]:
    """The texts that an expression may be, at most _MOST_ALTERNATIVES."""
    found = dict.fromkeys(" ".join(re.sub(f"{ANY}+", ANY, text).split()) for text in _read(part, scope, hops))
    return [text for text in found if text and not text.isdigit()][:_MOST_ALTERNATIVES] or [ANY]


def _read(part: ast.expr, scope: Scope, hops: int) -> list[str]:
    match part:
        case ast.Constant(value=value):
            return [ANY if value is None else str(value)]
        case ast.JoinedStr(values=values):
            return _joined([_read(each, scope, hops) for each in values])
        case ast.FormattedValue():
            return [_formatted(text, part) for text in _read(part.value, scope, hops)]
        case ast.IfExp(body=body, orelse=otherwise):
            return _one_number([*_read(body, scope, hops), *_read(otherwise, scope, hops)])
        case ast.BoolOp(op=ast.Or(), values=values):
            return [text for each in values for text in _read(each, scope, hops)]
        case ast.BinOp(op=ast.Add(), right=ast.Constant(value=int())):  # a sum of numbers
            return [ANY]
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return _joined([_read(left, scope, hops), _read(right, scope, hops)])
        case ast.Name(id=name):
            return _named(name, scope, hops)
        case ast.Attribute(value=ast.Name(id=module), attr=name):
            return _constant_of(_imported(scope.path).get(module, ""), name, hops)
        case ast.Call():
            return _called(part, scope, hops)
    return [ANY]


def _one_number(texts: list[str]) -> list[str]:
    """Without numbers beside what only a run knows: `len(rows) if rows else 0` is any number."""
    return [text for text in texts if not text.isdigit()] if ANY in texts else texts


def _formatted(text: str, part: ast.FormattedValue) -> str:
    """A text as an f-string writes it: in quotes after !r, a number by its format."""
    if part.conversion == ord("r"):
        return repr(text) if text != ANY and not text.startswith("b'") else text
    if part.format_spec and text.isdigit():
        return format(int(text), "".join(_read(part.format_spec, Scope(""), 0)))
    return ANY if part.format_spec else text


def _joined(parts: Sequence[Sequence[str]]) -> list[str]:
    found = itertools.product(*(part or [ANY] for part in parts))
    return ["".join(texts) for texts in itertools.islice(found, _MOST_ALTERNATIVES)]


def _named(name: str, scope: Scope, hops: int) -> list[str]:
    if name in scope.given:
        return _read(*scope.given[name], hops)
    if name in scope.parameters or not hops:
        return [ANY]
    if scope.function and (values := _assigned(scope.function, name)):
        plain = [value for value in values if name not in map(_last_name, ast.walk(value))]
        longer = [value for value in values if value not in plain]
        inner = Scope(scope.path, scope.function, {**scope.given, name: (plain[0], scope)}) if plain else None
        texts = [text for value in plain for text in _read(value, scope, hops - 1)]
        return texts + [text for value in longer if inner for text in _read(value, inner, hops - 1)]
    if values := _assigned(tree(scope.path), name):
        return _read(values[0], Scope(scope.path), hops - 1)
    module, _, original = _imported(scope.path).get(name, "").rpartition(".")
    return _constant_of(module, original, hops)


def _constant_of(module: str, name: str, hops: int) -> list[str]:
    path = HOUSE.modules.get(module)
    values = _assigned(tree(path), name) if path and hops else []
    return _read(values[0], Scope(path), hops - 1) if values else [ANY]


def _assigned(place: ast.Module | ast.FunctionDef, name: str) -> list[ast.expr]:
    """The values that a function or a module, but not what is defined in it, gives to a name."""
    found = []
    left = list(place.body)
    while left:
        node = left.pop(0)
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            continue
        if isinstance(node, ast.Assign):
            found += [value for target in node.targets for value in _given_to(target, node.value, name)]
        left += [
            child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt | ast.excepthandler)
        ]
    return found


def _given_to(target: ast.expr, value: ast.expr, name: str) -> list[ast.expr]:
    match target, value:
        case ast.Name(id=found), _ if found == name:
            return [value]
        case ast.Tuple(elts=targets), ast.Tuple(elts=values):
            pairs = zip(targets, values, strict=True)
            return [one for each, inner in pairs for one in _given_to(each, inner, name)]
        case ast.Tuple(elts=targets), _ if name in [ast.unparse(each) for each in targets]:
            return [ast.Attribute(value=value, attr=name)]  # a part of what is not known: read as …
    return []


def _called(call: ast.Call, scope: Scope, hops: int) -> list[str]:
    """A suggestion, a text that a method changes a little, or what a function of the same file returns."""
    match call.func:
        case ast.Name(id="did_you_mean"):
            otherwise = [each.value for each in call.keywords if each.arg == "otherwise"]
            return ["Did you mean …?", *(text for each in otherwise for text in _read(each, scope, hops))]
        case ast.Name(id="str", ctx=_) if call.args:
            return _read(call.args[0], scope, hops) if not isinstance(call.args[0], ast.Constant) else [ANY]
        case ast.Attribute(attr=method, value=text) if method in _KEEPS_TEXT:
            return [re.sub(r"\{[^}]*\}", ANY, each) for each in _read(text, scope, hops)]
    return _returned(call, scope, hops)


def _returned(call: ast.Call, scope: Scope, hops: int) -> list[str]:
    function = _definition(ast.unparse(call.func), scope)
    if function is None or not hops:
        return [ANY]
    given = {name: (value, scope) for name, value in _arguments(call, function).items()}
    inner = Scope(function.path, function.function, given)
    returns = [each.value for each in ast.walk(inner.function) if isinstance(each, ast.Return) and each.value]
    return [text for each in returns for text in _read(each, inner, hops - 1)] or [ANY]


def _definition(called: str, scope: Scope) -> Scope | None:
    """The function of ours that a name such as `cause_of` or `source.cause_of` stands for."""
    first, _, method = called.partition(".")
    dotted = _imported(scope.path).get(first, f"{module_of(scope.path)}.{first}")
    module, _, name = (f"{dotted}.{method}" if method else dotted).rpartition(".")
    path = HOUSE.modules.get(module)
    for node in tree(path).body if path in HOUSE.product else ():
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return Scope(path, node)
    return None
