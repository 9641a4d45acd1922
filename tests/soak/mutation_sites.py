"""Places in the product where one small change makes a fault, found again after the code has moved.

A mutation is known by the text of its function and of its statement. Names of modules, annotations and
messages do not count: a function that moves to another file keeps its mutations.
"""

import ast
import copy
import dataclasses
import difflib
from collections.abc import Iterator, Mapping, Sequence

COMPARISONS = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE,
    ast.GtE: ast.Gt, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
ARITHMETIC = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip
BOOLEANS = {ast.And: ast.Or, ast.Or: ast.And}
Functions = ast.FunctionDef | ast.AsyncFunctionDef
ALIKE = 0.7  # the least that two texts of a function may have in common, as difflib counts
SKIPPED = ast.JoinedStr  # Python 3.11 does not say where the parts of an f-string stand


@dataclasses.dataclass(frozen=True, kw_only=True)
class Mutation:
    """`body` is the function's text, `statement` the changed one's text, `ordinal` counts equal ones."""

    function: str
    body: str
    kind: str
    statement: str
    change: str
    ordinal: int

    @property
    def place(self) -> tuple[str, ...]:
        """What is the same wherever the function stands."""
        return self.kind, self.statement, self.change, str(self.ordinal)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Site:
    """Where the text of a file changes, and into what."""

    mutation: Mutation
    node: ast.AST
    replacement: str

    def applied(self, text: str) -> str:
        lines = [line.encode() for line in text.splitlines(keepends=True)]
        first, last = self.node.lineno - 1, self.node.end_lineno - 1
        head, tail = lines[first][: self.node.col_offset], lines[last][self.node.end_col_offset :]
        changed = head + self.replacement.encode() + tail
        return b"".join([*lines[:first], changed, *lines[last + 1 :]]).decode()


def sites(text: str) -> Iterator[Site]:
    """Every place of a file that can be mutated."""
    tree = ast.parse(text)
    modules = _imported_names(tree)
    for name, function in _functions(tree, ""):
        yield from _sites_of(name, function, modules)


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, Functions]]:
    """Functions and methods with their qualified names; one inside another belongs to the outer one."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Functions):
            yield prefix + child.name, child
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}{child.name}.")


def _imported_names(tree: ast.Module) -> set[str]:
    imported = (node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom))
    return {alias.asname or alias.name for node in imported for alias in node.names}


def _sites_of(name: str, function: Functions, modules: set[str]) -> Iterator[Site]:
    whole = "\n".join(_normalised(statement, modules) for statement in function.body)
    counts: dict[tuple[str, str, str], int] = {}
    for statement in _statements(function.body):
        text = _normalised(_header(statement), modules)
        for kind, node, changed in _changes(statement):
            change = f"{_normalised(node, modules)} -> {_normalised(changed, modules)}"
            key = (kind, text, change)
            counts[key] = counts.get(key, -1) + 1
            mutation = Mutation(
                function=name, body=whole, kind=kind, statement=text, change=change, ordinal=counts[key]
            )
            written = ast.unparse(changed)
            yield Site(
                mutation=mutation,
                node=node,
                replacement=f"({written})" if isinstance(changed, ast.expr) else written,
            )


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        yield statement
        for field in ("body", "orelse", "finalbody"):
            yield from _statements(getattr(statement, field, []))
        for part in [*getattr(statement, "handlers", []), *getattr(statement, "cases", [])]:
            yield from _statements(part.body)


def _header(statement: ast.stmt) -> ast.stmt:
    """The statement without the statements in it."""
    shallow = copy.copy(statement)
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        if hasattr(shallow, field):
            setattr(shallow, field, [ast.Pass()] if field == "body" else [])
    return ast.Expr(ast.Constant("try")) if isinstance(shallow, ast.Try) else shallow


def _changes(statement: ast.stmt) -> Iterator[tuple[str, ast.AST, ast.AST]]:
    """Kind, node and what takes its place, for the statement and the expressions of its own."""
    if isinstance(statement, ast.Return) and not _is_none(statement.value):
        yield "return", statement, ast.Return(ast.Constant(None))
    is_call = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
    if is_call or isinstance(statement, ast.AugAssign | ast.Raise):
        yield "deleted", statement, ast.Pass()
    for node in _expressions(_header(statement)):
        if (swapped := _swapped(node)) is not None:
            yield "operator", node, swapped
        if isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
            value = not node.value if isinstance(node.value, bool) else node.value + 1
            yield "constant", node, ast.Constant(value)


def _is_none(node: ast.AST | None) -> bool:
    return node is None or (isinstance(node, ast.Constant) and node.value is None)


def _expressions(node: ast.AST) -> Iterator[ast.AST]:
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not isinstance(child, SKIPPED):
                yield child
                yield from _expressions(child)


def _swapped(node: ast.AST) -> ast.AST | None:
    """The expression with another operator; None if it has none that can be swapped."""
    changed = copy.copy(node)
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARISONS:
        changed.ops = [COMPARISONS[type(node.ops[0])](), *node.ops[1:]]
    elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        changed.op = ARITHMETIC[type(node.op)]()
    elif isinstance(node, ast.BoolOp):
        changed.op = BOOLEANS[type(node.op)]()
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        changed = node.operand
    else:
        return None
    return changed


class _Plain(ast.NodeTransformer):
    """`module.name` becomes `name`; annotations, docstrings and messages go."""

    def __init__(self, modules: set[str]) -> None:
        self.modules = modules

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        is_module = isinstance(node.value, ast.Name) and node.value.id in self.modules
        return ast.Name(node.attr) if is_module else node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        is_message = isinstance(node.value, str) and " " in node.value
        return ast.Constant("message") if is_message else node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return ast.Constant("message")

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return ast.arg(node.arg)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        self.generic_visit(node)
        return ast.Assign([node.target], node.value or ast.Constant(None), lineno=0)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        node.returns = None
        return node


def _normalised(node: ast.AST, modules: set[str]) -> str:
    is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return "" if is_docstring else ast.unparse(_Plain(modules).visit(copy.deepcopy(node)))


def located(mutation: Mutation, files: Mapping[str, Sequence[Site]]) -> tuple[str, Site] | None:
    """The place of a mutation in the function whose text is the most like its own, if that is one only."""
    fitting = [
        (path, site)
        for path, found in files.items()
        for site in found
        if site.mutation.place == mutation.place
    ]
    likes = [difflib.SequenceMatcher(None, one[1].mutation.body, mutation.body).ratio() for one in fitting]
    best = [one for one, like in zip(fitting, likes, strict=True) if like == max(likes) >= ALIKE]
    return best[0] if len(best) == 1 else None
