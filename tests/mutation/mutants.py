"""Which mutants there are: one small, realistic fault each, in the packages that compute and decide.

The mutations are those of cosmic-ray that a slip of the hand could make, and some of our own for what is
forgotten or taken for another: a call that stands alone, a keyword argument, an exception, ``min`` for
``max``. (mutmut renames every function, so that no call is made from where the tests expect it, and leaves
out properties and constants.)
"""

import ast
import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeGuard

import parso
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator

PACKAGES = ("analysis", "records", "profiling", "grid", "strategies", "tables")

_SWAPS = {
    "Binary": (
        *("Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "FloorDiv_Mul", "Mod_FloorDiv", "Pow_Mul"),
        *("LShift_RShift", "RShift_LShift", "BitOr_BitAnd", "BitAnd_BitOr"),
    ),
    "Comparison": ("Eq_NotEq", "NotEq_Eq", "Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt", "Is_IsNot", "IsNot_Is"),
    "Unary": ("Delete_USub", "Delete_Not"),
}
_OF_COSMIC_RAY = (
    *(f"core/Replace{kind}Operator_{swap}" for kind, swaps in _SWAPS.items() for swap in swaps),
    *("core/AddNot", "core/NumberReplacer", "core/ZeroIterationForLoop"),
    *("core/ReplaceTrueWithFalse", "core/ReplaceFalseWithTrue"),
    *("core/ReplaceAndWithOr", "core/ReplaceOrWithAnd"),
    *("core/ReplaceBreakWithContinue", "core/ReplaceContinueWithBreak"),
)


_OTHER_END = {"min": "max", "max": "min", "idxmin": "idxmax", "idxmax": "idxmin"}


def _is_statement(node):
    """Whether it is a call that stands alone: ``close()``."""
    last = node.children[-1] if node.type in ("atom_expr", "power") else None
    called = last is not None and last.type == "trailer" and last.children[0].value == "("
    return called and node.parent.type == "simple_stmt"


def _is_keyword(node):
    """Whether it is a keyword argument: ``mode="r"``."""
    inside = node.parent is not None and node.parent.type in ("arglist", "trailer")
    return inside and node.type == "argument" and node.children[1] == "="


def _is_end(node):
    """Whether it is a call of one end: ``max(a, b)``, ``times.idxmin()``."""
    return node.type == "name" and node.value in _OTHER_END and node.get_next_leaf() == "("


def _is_caught(node):
    """Whether it is the exception of an ``except``."""
    clause = node.parent
    return clause is not None and clause.type == "except_clause" and clause.children[1] is node


class Replace(Operator):
    """An operator with one mutation, of the nodes that it applies to: another text in their place."""

    def __init__(self, applies, text):
        self._applies, self._text = applies, text

    @classmethod
    def examples(cls):
        return ()

    def mutation_positions(self, node):
        if self._applies(node):
            yield node.start_pos, node.end_pos

    def mutate(self, node, index):
        return parso.parse(node.get_first_leaf().prefix + self._text(node))


_OURS = (
    (_is_statement, lambda node: "pass"),
    (_is_keyword, lambda node: "**{}"),
    (_is_end, lambda node: _OTHER_END[node.value]),
    (_is_caught, lambda node: "GeneratorExit"),  # which is never raised
)


@dataclass(frozen=True)
class Mutant:
    """One fault in one file: its line, and the lines before and after, without indentation.

    ``at_import``: whether the line runs when the file is imported, since it is not in a function, or in one
    whose result is kept.
    """

    file: str
    line: int
    before: str
    after: str
    code: str
    at_import: bool

    @property
    def package(self) -> str:
        return self.file.split("/")[1]

    @property
    def key(self) -> tuple[str, str, str]:
        """What it is known by in the list of survivors: no line number, which moves."""
        return self.file, self.before, self.after

    def __str__(self) -> str:
        return f"{self.file}:{self.line}\n    - {self.before}\n    + {self.after}"


@dataclass(frozen=True, order=True)
class Site:
    """Where an operator, by its number, applies for the n-th time in a file."""

    file: str
    operator: int
    occurrence: int

    @property
    def package(self) -> str:
        return self.file.split("/")[1]

    def mutant(self, root: Path) -> Mutant | None:
        """The mutant; None where it is not valid Python."""
        code = (root / self.file).read_text("utf-8")
        changed = mutate_code(code, _operators()[self.operator], self.occurrence)
        return _mutant(self.file, code, changed) if changed is not None and _compiles(changed) else None


def files_of(root: Path, package: str) -> list[str]:
    """The modules of a package of ``snn``."""
    return [path.relative_to(root).as_posix() for path in sorted((root / "snn" / package).rglob("*.py"))]


def sites_of(root: Path, file: str) -> Iterator[Site]:
    """Every place of a file where something can be mutated that is computed."""
    code = (root / file).read_text("utf-8")
    idle, nodes = _idle(code), list(ast_nodes(get_ast(code)))
    for number, operator in enumerate(_operators()):
        places = [(node, start) for node in nodes for start, _ in operator.mutation_positions(node)]
        for occurrence, (node, start) in enumerate(places):
            is_mark = node.parent is not None and node.parent.type == "parameters"  # the * of f(a, *, b)
            if not is_mark and not any(first <= start < last for first, last in idle):
                yield Site(file, number, occurrence)


def _mutant(file: str, code: str, changed: str) -> Mutant:
    old, new = code.splitlines(), changed.splitlines()
    edits = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    first, last = (next(edits_) for edits_ in (_changed(edits), _changed(reversed(edits))))
    before, after = (
        " ".join(line.strip() for line in text) for text in (old[first[1] : last[2]], new[first[3] : last[4]])
    )
    line = first[1] + 1
    bodies = [node.body for node in ast.walk(ast.parse(code)) if _runs_for_each_caller(node)]
    at_import = not any(body[0].lineno <= line <= (body[-1].end_lineno or 0) for body in bodies)
    return Mutant(file, line, before, after, changed, at_import)


def _runs_for_each_caller(node: ast.AST) -> TypeGuard[ast.FunctionDef]:
    """Whether it is a function, and not one whose result is kept: that runs for its first caller alone."""
    return isinstance(node, ast.FunctionDef) and not any(
        isinstance(one, ast.Name) and one.id == "cache" for one in node.decorator_list
    )


def _changed(edits):
    return (edit for edit in edits if edit[0] != "equal")


@cache
def _operators() -> list[Operator]:
    return [*(get_operator(name)() for name in _OF_COSMIC_RAY), *(Replace(*ours) for ours in _OURS)]


def _compiles(code: str) -> bool:
    try:
        compile(code, "mutant", "exec")
    except SyntaxError:
        return False
    return True


def _idle(code: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Where no fault can show: annotations, ``if TYPE_CHECKING``, and arguments that only guard.

    Those are ``strict`` and ``frozen``, and ``encoding``, for tests run where UTF-8 is the default.
    """
    idle = [part for node in ast.walk(ast.parse(code)) for part in _idle_parts(node) if part is not None]
    return [((part.lineno, part.col_offset), (part.end_lineno, part.end_col_offset)) for part in idle]


def _idle_parts(node: ast.AST) -> Iterator[ast.AST | None]:
    match node:
        case ast.arg() | ast.AnnAssign():
            yield node.annotation
        case ast.FunctionDef():
            yield node.returns
        case ast.keyword(arg="strict" | "frozen" | "encoding") | ast.If(test=ast.Name(id="TYPE_CHECKING")):
            yield node
