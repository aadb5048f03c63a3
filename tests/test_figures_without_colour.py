"""What figures say without colour, and what is seen on white."""

from itertools import pairwise

import pytest
from matplotlib.colors import to_hex, to_rgb

from snn.figures import attribution, curves, style


def luminance(colour):
    """The relative luminance of WCAG 2."""
    parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in to_rgb(colour)]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def test_parts_of_a_time_differ_without_their_colours():
    """In any order, as some may be missing: by a line and by hatches, or lightness where there is none."""
    looks = [attribution.box(part) for part in attribution.PARTS]
    assert all(to_hex(look["edgecolor"]) == "#ffffff" for look in looks)
    hatches = [look["hatch"] for look in looks if look["hatch"]]
    assert len(set(hatches)) == len(hatches) == len(looks) - 3
    solid = [luminance(look["facecolor"]) for look in looks if not look["hatch"]]
    assert all((high + 0.05) / (low + 0.05) > 1.9 for low, high in pairwise(sorted(solid)))


@pytest.mark.parametrize("first", style.LINES)
def test_later_curves_of_a_program_are_seen_on_white(first):
    assert 1.05 / (luminance(style.darker(first, curves.LATER)) + 0.05) >= 3
