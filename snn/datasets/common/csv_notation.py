"""Numbers that are no plain decimal numbers: with decimal commas, marks between thousands, or a sign."""

import re
import unicodedata
from collections.abc import Iterable
from typing import NamedTuple


class Notation(NamedTuple):
    """A way to write numbers: the mark before their decimals, and the one between their thousands."""

    decimal: str
    thousands: str

    def reads(self, cell: str) -> bool:
        """Whether a cell is a number in this notation."""
        decimal, thousands = re.escape(self.decimal), re.escape(self.thousands)
        whole = rf"([0-9]+|[1-9][0-9]{{0,2}}({thousands}[0-9]{{3}})+)?"
        number = rf"(?=[+-]?[,.]?[0-9])[+-]?{whole}({decimal}[0-9]*)?([eE][+-]?[0-9]+)?"
        return re.fullmatch(number, cell) is not None

    def rewritten(self, cell: str) -> str:
        """A number of this notation with a decimal point, and nothing between its thousands."""
        return cell.strip().replace(self.thousands, "").replace(self.decimal, ".")


COMMA, POINT = Notation(",", "."), Notation(".", ",")
ALL = frozenset({COMMA, POINT})
_NAMES = {
    (COMMA, ","): "decimal commas",
    (COMMA, "."): "points between thousands",
    (POINT, ","): "commas between thousands",
}
_SCRIPTS = {COMMA: "s/,/./g", POINT: "s/,//g"}


def reading(cells: Iterable[str], among: Iterable[Notation] = ALL) -> frozenset[Notation]:
    """The notations in which every cell is a number; none where there is text among them."""
    left = frozenset(among)
    for cell in cells:
        left = frozenset(one for one in left if one.reads(cell))
        if not left:
            break
    return left


def sign_of(cell: str) -> str | None:
    """The sign of currency or per cent at a number, as in ``-$1`` or ``12 %``; empty where there is none.

    None of a text.
    """
    bare = cell[1:] if cell.startswith(("+", "-")) else cell
    for sign, number in (("", cell), (bare[:1], bare[1:]), (bare[-1:], bare[:-1])):
        if (not sign or _is_sign(sign)) and any(one.reads(number.strip()) for one in ALL):
            return sign
    return None


def _is_sign(mark: str) -> bool:
    return mark in "%‰" or unicodedata.category(mark) == "Sc"


def marks_in(cells: Iterable[str]) -> frozenset[str]:
    """The marks that stand in some cells."""
    return frozenset(mark for cell in cells for mark in (",", ".") if mark in cell)


def named(notations: Iterable[Notation], marks: Iterable[str]) -> str:
    """What is there beside digits and a decimal point, in words: ``decimal commas``."""
    seen = sorted(marks)
    of_each = (" and ".join(_NAMES[one, mark] for mark in seen if (one, mark) in _NAMES) for one in notations)
    return ", or ".join(sorted(of_each, reverse=True))


def right(notations: Iterable[Notation], cell: str) -> str:
    """The number that a cell stands for as it would be right; in doubt those that it may stand for."""
    return " or ".join(sorted({one.rewritten(cell) for one in notations}))


def script_without(signs: Iterable[str]) -> str:
    """What ``sed`` would do to a file to leave out these signs."""
    return "; ".join(f"s/[{sign}]//g" if sign.isascii() else f"s/{sign}//g" for sign in sorted(signs))


def script(notations: Iterable[Notation], marks: Iterable[str]) -> str | None:
    """What ``sed`` would do to a file with these numbers; None where it takes more than one replacement."""
    found = list(notations)
    return _SCRIPTS[found[0]] if len(found) == 1 and (found[0] == POINT or set(marks) == {","}) else None
