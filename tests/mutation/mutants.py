"""Which mutants there are: one small, realistic fault each, in the packages that compute and decide.

The mutations are those of cosmic-ray that a slip of the hand could make, and some of our own, of what is
forgotten or mistaken: a call that stands alone, a keyword argument, an exception, ``min`` for ``max``.
(mutmut renames every function, so that no call comes from where the tests expect it, and leaves out
properties and constants.)
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import parso
from cosmic_ray import plugins
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from cosmic_ray.work_item import MutationSpec

PACKAGES = ("analysis", "records", "profiling", "grid", "strategies", "tables")

_SWAPS = {
    "Binary": (
        *("Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "FloorDiv_Mul", "Mod_FloorDiv", "Pow_Mul"),
        *("LShift_RShift", "RShift_LShift", "BitOr_BitAnd", "BitAnd_BitOr"),
    ),
    "Comparison": ("Eq_NotEq", "NotEq_Eq", "Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt", "Is_IsNot", "IsNot_Is"),
    "Unary": ("Delete_USub", "Delete_Not"),
}
_OTHER_END = {"min": "max", "max": "min", "idxmin": "idxmax", "idxmax": "idxmin"}


class Replace(Operator):
    """An operator with one mutation of the nodes that it applies to: another text instead."""

    def __init__(self, applies, text):
        self._applies, self._text = applies, text

    @classmethod
    def examples(cls):
        return ()

    def mutation_positions(self, node):
        if node.parent is not None and self._applies(node):
            yield node.start_pos, node.end_pos

    def mutate(self, node, index):
        return parso.parse(node.get_first_leaf().prefix + _OTHER_END.get(node.get_code().strip(), self._text))


def _is_statement(node):
    """Whether it is a call that stands alone: ``close()``."""
    last = node.children[-1] if node.type in ("atom_expr", "power") else None
    called = last is not None and last.type == "trailer" and last.children[0].value == "("
    return called and node.parent.type == "simple_stmt"


def _is_keyword(node):
    """Whether it is a keyword argument: ``mode="r"``."""
    inside = node.parent.type in ("arglist", "trailer")
    return inside and node.type == "argument" and node.children[1] == "="


def _is_end(node):
    """Whether it is a call of one end: ``max(a, b)``, ``times.idxmin()``."""
    return node.type == "name" and node.value in _OTHER_END and node.get_next_leaf() == "("


def _is_caught(node):
    """Whether it is the exception of an ``except``; GeneratorExit is never raised."""
    return node.parent.type == "except_clause" and node.parent.children[1] is node


plugins.OPERATOR_PROVIDERS["ours"] = {
    "statement": partial(Replace, _is_statement, "pass"),
    "keyword": partial(Replace, _is_keyword, "**{}"),
    "end": partial(Replace, _is_end, ""),
    "caught": partial(Replace, _is_caught, "GeneratorExit"),
}
OPERATORS = (
    *(f"core/Replace{kind}Operator_{swap}" for kind, swaps in _SWAPS.items() for swap in swaps),
    *("core/AddNot", "core/NumberReplacer", "core/ZeroIterationForLoop"),
    *("core/ReplaceTrueWithFalse", "core/ReplaceFalseWithTrue"),
    *("core/ReplaceAndWithOr", "core/ReplaceOrWithAnd"),
    *("core/ReplaceBreakWithContinue", "core/ReplaceContinueWithBreak"),
    *(f"ours/{name}" for name in plugins.OPERATOR_PROVIDERS["ours"]),
)


@dataclass(frozen=True, order=True)
class Mutant:
    """Where an operator applies for the n-th time in a file."""

    file: str
    line: int
    operator: str
    occurrence: int

    @property
    def package(self) -> str:
        return self.file.split("/")[1]

    @property
    def spec(self) -> MutationSpec:
        place = (self.line, 0), (self.line, 1)
        return MutationSpec(self.file, self.operator, self.occurrence, *place)

    def edit(self, root: Path) -> tuple[str, str] | None:
        """The lines before and after, without indentation; None if the mutant is not valid Python.

        They are what a mutant is known by in the list of survivors: line numbers move.
        """
        code = (root / self.file).read_text("utf-8")
        changed = mutate_code(code, plugins.get_operator(self.operator)(), self.occurrence)
        try:
            compile(changed, "mutant", "exec")
        except (SyntaxError, TypeError):  # TypeError: nothing was changed
            return None
        old, new = code.splitlines(), changed.splitlines()
        same = [next((i for i, (a, b) in enumerate(pairs) if a != b), 0) for pairs in _pairs(old, new)]
        before, after = (
            " ".join(map(str.strip, lines[same[0] : len(lines) - same[1]])) for lines in (old, new)
        )
        return before, after

    def at_import(self, root: Path) -> bool:
        """Whether the line runs for its first caller alone: at import, or in a cached function."""
        bodies = [
            node.body
            for node in ast.walk(ast.parse((root / self.file).read_text("utf-8")))
            if isinstance(node, ast.FunctionDef)
            and not any(isinstance(one, ast.Name) and one.id == "cache" for one in node.decorator_list)
        ]
        return not any(body[0].lineno <= self.line <= (body[-1].end_lineno or 0) for body in bodies)


def _pairs(old: list[str], new: list[str]):
    """The lines of two texts side by side, from the first and from the last one."""
    return zip(old, new, strict=False), zip(old[::-1], new[::-1], strict=False)


def mutants_in(root: Path, file: str) -> Iterator[Mutant]:
    """Every place of a file where something that is computed can be mutated."""
    code = (root / file).read_text("utf-8")
    idle, nodes = [*_idle(code)], _nodes(code)
    for name in OPERATORS:
        operator = plugins.get_operator(name)()
        places = [(node, start) for node in nodes for start, _ in operator.mutation_positions(node)]
        for occurrence, (node, start) in enumerate(places):
            is_mark = node.parent is not None and node.parent.type == "parameters"  # the * of f(a, *, b)
            if not is_mark and not any(first <= start < last for first, last in idle):
                yield Mutant(file, start[0], name, occurrence)


@cache
def _nodes(code: str) -> list:
    return list(ast_nodes(get_ast(code)))


def _idle(code: str) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Where no fault can show: annotations, ``if TYPE_CHECKING``, and arguments that only guard.

    Those are ``strict`` and ``frozen``, and ``encoding``, for tests run where UTF-8 is the default.
    """
    for node in ast.walk(ast.parse(code)):
        match node:
            case ast.arg() | ast.AnnAssign():
                part = node.annotation
            case ast.FunctionDef():
                part = node.returns
            case (
                ast.keyword(arg="strict" | "frozen" | "encoding") | ast.If(test=ast.Name(id="TYPE_CHECKING"))
            ):
                part = node
            case _:
                continue
        if part is not None:
            yield (part.lineno, part.col_offset), (part.end_lineno, part.end_col_offset)
