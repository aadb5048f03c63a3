"""What docs/results.md says of the rounds of the H200's sets, and of where they ran; as ``facts``."""

from collections import Counter
from functools import cache

from snn.files import published_sets
from snn.files.published_sets import PUBLISHED
from snn.records import archive, microbenchmarks
from snn.records.untrusted import lines, parse
from snn.report import published_set


@cache
def rounds_of(name):
    """Where each round ran, by sweep and cell: the card, or of a CPU the day."""
    folder = PUBLISHED / "nvidia-h200" / name
    places = {}
    for entry in archive.entries(folder).values():
        where = entry.record["provenance"]
        place = where["device_uuid"] or where["started"][:10]
        places.setdefault(published_set.name_as_written(entry), {})[entry.record["round"]] = place
    return {
        sweep: {cell: places[cell] for cell in found["cells"]}
        for sweep, found in archive.read_sweeps(folder).items()
    }


def on_cpu(cell):
    return cell.startswith("cpu-")


def of_the_papers_rounds():
    sweeps = rounds_of("paper")
    deepest = {cell: of for cell, of in sweeps["depth"].items() if "/256-1024-256/" in cell}
    others = [of for cells in sweeps.values() for cell, of in cells.items() if cell not in deepest]
    (first,) = {card for of in others for card in of.values()}
    assert {len(of) for of in others} == {5}
    yield "one run in each of five rounds, six with 256-1024-256"
    (combined,) = (of for cell, of in deepest.items() if "combined" in cell)
    (reference,) = (of for cell, of in deepest.items() if "reference" in cell)
    second = combined[6]
    assert len(deepest) == 2 and second != first
    assert reference == dict.fromkeys(range(1, 6), first) | {6: second}
    assert combined == dict.fromkeys(range(1, 5), first) | {5: second, 6: second}
    yield "The sixth, and the fifth of `combined`, ran on a second card"


def of_the_rounds_of_every_strategy():
    cells = {cell: of for sweep in rounds_of("strategies").values() for cell, of in sweep.items()}
    assert {len(of) for cell, of in cells.items() if not on_cpu(cell)} == {5}
    cpu = [of for cell, of in cells.items() if on_cpu(cell)]
    assert {len(of) for of in cpu} == {6}
    (day,) = {of[number] for of in cpu for number in (1, 2, 3, 4)}
    assert day not in {of[6] for of in cpu}
    assert len(cpu) / 2 < sum(of[5] != day for of in cpu) < len(cpu)
    yield "The rows of the CPU have six rounds, the sixth and most of the fifth on other hosts"


def of_the_rounds_of_tiles():
    cells = rounds_of("sweeps")["tile_rows"]
    (first,) = {of[number] for of in cells.values() for number in (1, 2, 3, 4)}
    (second,) = {of[6] for of in cells.values()}
    fifth = [of[5] for cell, of in cells.items() if of[5] != first and "/1024/" in cell]
    assert {len(of) for of in cells.values()} == {6} and second != first
    assert sum(of[5] != first for of in cells.values()) == len(fifth) == 7
    (third,) = set(fifth) - {second}
    assert (fifth.count(second), fifth.count(third)) == (5, 2)
    yield "the sixth on a second card, as the fifth of five cells with 1024 neurons"
    yield "and the fifth of two such cells on a third"


def of_the_rounds_of_remedies():
    cells = rounds_of("memory")["memory_remedies"]
    assert {len(of) for of in cells.values()} == {7}
    assert len({card for of in cells.values() for card in of.values()}) == 3
    yield "the sweep `memory_remedies`: seven rounds of three runs, on three cards"


def of_the_cnns_rounds():
    sweeps = rounds_of("cnn")
    counts = {name: {*map(len, cells.values())} for name, cells in sweeps.items()}
    assert min(map(min, counts.values())) == 5 and counts["cnn_block_size"] == {8}
    yield "Every sweep has at least five rounds, `cnn_block_size` eight"
    assert [len(of) for cell, of in sweeps["cnn_strategies"].items() if on_cpu(cell)] == [7, 7, 7]
    yield "The three CPU rows of `cnn_strategies` have seven rounds"
    programs = sweeps["cnn_programs"]
    own = {cell: rounds for cell, rounds in sweeps["cnn_block_size"].items() if cell not in programs}
    for cells, first in ((programs, 3), (own, 3), (sweeps["cnn_loader"], 3), (sweeps["cnn_strategies"], 4)):
        for rounds in cells.values():
            earlier = {card for number, card in rounds.items() if number < first}
            later = {card for number, card in rounds.items() if number >= first}
            assert not earlier & later
    later = [{of[number] for of in cells.values() for number in (3, 4, 5)} for cells in (programs, own)]
    assert not later[0] & later[1]
    yield "Rounds from the third on of `cnn_programs`, `cnn_block_size` and `cnn_loader`"
    yield "and from the fourth on of `cnn_strategies` ran on other cards than the earlier ones"
    yield "rounds 3 to 5 of `cnn_block_size` on another than those of `cnn_programs`"
    baselines = {cell for cell in sweeps["cnn_block_size"] if cell in programs}
    assert all(
        sum(of[number] == programs[base][number] for number in of) == 5
        for of in own.values()
        for base in baselines
    )
    yield "Those of `cnn_block_size` are of five rounds"


def of_commits():
    """The commits of records; where one is not recorded, what their sources say of it."""
    commits, sources = {}, {}
    for folder in published_sets.sets():
        name = published_sets.name_of(folder)
        benchmarks = microbenchmarks.of_devices(folder).values()
        records = [(record["name"], record) for record in benchmarks]
        if archive.has_cells(folder):
            records += [(name, parse(line, place)) for place, line in lines(folder / archive.RECORDS)]
        for of, record in records:
            origin = record["provenance"]
            commit = (origin["git"]["commit"] or "")[:7]
            commits.setdefault(of, Counter())[commit] += 1
            sources.setdefault(commit, set()).add(origin["source_hash"])
    usual = Counter(commit for of in commits.values() for commit in of).most_common(1)[0][0]
    others = {name: of for name, of in commits.items() if set(of) != {usual}}
    neighbours, cnn = (others.pop(name) for name in ("nvidia-h100-80gb-hbm3/neighbours", "nvidia-h200/cnn"))
    assert {name: set(of) for name, of in others.items()} == {
        "nvidia-h100-80gb-hbm3/paper": {"ad365fa"},
        "memory_access": {"9e7de56"},
    }
    yield f"All records are of commit {usual}, except those of the H100's set `paper` (ad365fa)"
    yield "and of the microbenchmark `memory_access` (9e7de56)"
    assert set(neighbours) == {""} and set(cnn) == {"", usual}
    yield "The records of the H100's set `neighbours`"
    yield f"and {cnn['']} of the {cnn.total()} of nvidia-h200/cnn hold no commit"
    assert sources[""] <= sources[usual]
    yield f"The hashes of their sources are those of records of {usual}"
