"""The page about the public names of the code, from its signatures and docstrings; no code is run."""

import ast
import dataclasses
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence

from tests.house.docs import markdown, messages
from tests.house.imports import HOUSE

_SECTIONS = ("Args", "Attributes", "Raises")  # of a list of names
_RESULTS = ("Returns", "Yields")
_ENTRY = re.compile(r"(?P<name>[\w.*]+(?:, [\w.*]+)*): (?P<meaning>.*)", re.DOTALL)
_WIDTH = 100  # of a signature; a longer one has a line for each argument

Named = ast.ClassDef | ast.FunctionDef


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shown:
    """Names of one file that the page shows.

    Attributes:
      names: classes and functions of the file; with what they are called outside, where that differs.
    """

    path: str
    names: Mapping[str, str]


def page(sections: Mapping[str, tuple[str, Sequence[Shown]]]) -> Iterator[str]:
    """Lines of Markdown: for each heading its text, and the names below it.

    Raises:
      KeyError: a file defines no such name.
    """
    for heading, (text, files) in sections.items():
        yield from (f"## {heading}", "", text, "")
        for shown in files:
            defined = {node.name: node for node in messages.tree(shown.path).body if isinstance(node, Named)}
            for name, called in shown.names.items():
                yield from _described(defined[name], called or name, shown.path)


def _described(node: Named, called: str, path: str) -> Iterator[str]:
    yield from (f"### {called}", "")
    block = _class(node, called, path) if isinstance(node, ast.ClassDef) else _signature(node, called)
    yield from ("```text", *block, "```", "", f"In [{path}](../../{path}).", "")
    yield from _docstring(node)
    for method in node.body if isinstance(node, ast.ClassDef) else ():
        if isinstance(method, ast.FunctionDef) and _is_shown(method):
            yield from (f"**`{called}.{method.name}`**", "", "```text", *_signature(method), "```", "")
            yield from _docstring(method)


def fields(path: str, name: str) -> Iterator[str]:
    """Lines of Markdown: the fields of a dataclass with their defaults, and its docstring."""
    node = next(each for each in messages.tree(path).body if isinstance(each, Named) and each.name == name)
    yield from ("```text", *map(str.strip, [*_class(node, name, path)][1:]), "```", "")
    yield from _docstring(node)


def _is_shown(method: ast.FunctionDef) -> bool:
    is_operator = method.name in ("__getitem__", "__call__", "__iter__")
    return (not method.name.startswith("_") or is_operator) and ast.get_docstring(method) is not None


# --- Signatures.


def _class(node: ast.ClassDef, called: str, path: str) -> Iterator[str]:
    """The line of the class, and those of its fields as the file has them, with their comments."""
    lines = HOUSE.texts[path].splitlines()
    bases = ", ".join(map(ast.unparse, node.bases))
    yield f"class {called}({bases}):" if bases else f"class {called}:"
    for field in node.body:
        if isinstance(field, ast.AnnAssign) and not ast.unparse(field.target).startswith("_"):
            first = field.lineno - 1
            while lines[first - 1].lstrip().startswith("#"):
                first -= 1
            yield from lines[first : field.end_lineno]


def _signature(node: ast.FunctionDef, called: str = "") -> list[str]:
    """As `def` has it; a property as a name with a type."""
    called = called or node.name
    returns = f" -> {_type(node.returns)}" if node.returns else ""
    if any(ast.unparse(each) in ("property", "functools.cached_property") for each in node.decorator_list):
        return [f"{called}: {_type(node.returns)}"]
    arguments = _arguments(node.args)
    line = f"{called}({', '.join(arguments)}){returns}"
    if len(line) <= _WIDTH:
        return [line]
    return [f"{called}(", *(f"    {each}," for each in arguments), f"){returns}"]


def _arguments(args: ast.arguments) -> list[str]:
    """Each argument of a function, without `self`; `*` alone stands before those that go by name."""
    written = ast.unparse(args)
    parts = ast.parse(f"def f({written}): pass").body[0].args
    positional = [*parts.posonlyargs, *parts.args]
    defaults = [None] * (len(positional) - len(parts.defaults)) + parts.defaults
    found = [_argument(arg, default) for arg, default in zip(positional, defaults, strict=True)]
    if parts.vararg:
        found.append(f"*{_argument(parts.vararg, None)}")
    elif parts.kwonlyargs:
        found.append("*")
    found += [
        _argument(arg, default) for arg, default in zip(parts.kwonlyargs, parts.kw_defaults, strict=True)
    ]
    if parts.kwarg:
        found.append(f"**{_argument(parts.kwarg, None)}")
    return found[1:] if found and found[0] in ("self", "cls") else found


def _argument(arg: ast.arg, default: ast.expr | None) -> str:
    typed = f"{arg.arg}: {_type(arg.annotation)}" if arg.annotation else arg.arg
    return typed if default is None else f"{typed} = {ast.unparse(default)}"


def _type(annotation: ast.expr) -> str:
    """An annotation as text; one that is written as text, without its quotes."""
    return str(annotation.value) if isinstance(annotation, ast.Constant) else ast.unparse(annotation)


# --- Docstrings.


def _docstring(node: Named) -> Iterator[str]:
    """The docstring as Markdown: its sections become lists, what it indents becomes a block."""
    for part in re.split(r"\n{2,}", ast.get_docstring(node) or ""):
        name, _, rest = part.partition(":\n")
        if name in _RESULTS:
            yield f"{name}: {markdown.escaped(textwrap.dedent(rest))}"
        elif name in _SECTIONS:
            yield from (f"{name}:", "")
            yield from map(_entry, _entries(rest))
        elif part.startswith("  "):
            yield from ("```text", textwrap.dedent(part), "```")
        else:
            yield markdown.escaped(part)
        yield ""


def _entries(text: str) -> list[str]:
    """The entries of a section, each on one line: a line that is indented further goes on."""
    lines = textwrap.dedent(text).splitlines()
    return "\n".join(lines).replace("\n  ", " ").splitlines()


def _entry(text: str) -> str:
    if found := _ENTRY.fullmatch(text):
        return f"- `{found['name']}`: {markdown.escaped(found['meaning'])}"
    return f"- {markdown.escaped(text)}"
