"""Pages of tables: what sorting needs of them, words in their tones; configuration and provenance."""

import re

import pandas as pd
import pytest
import yaml
from conftest import ROOT
from records_of import record

from snn.config.groups import read_yaml
from snn.grid import sweeps as grid
from snn.hardware.devices import Device
from snn.report.write import badges, to_html, write
from snn.tables.origin import configuration, provenance

GPU = Device("cuda", "NVIDIA H200")
SWEEPS = grid.read(ROOT / "config/grid.yaml", GPU)
ORIGIN = {
    "started": "2026-11-21T00:45:44+00:00",
    "elapsed_seconds": 12.5,
    "cuda_runtime": 13020,
    "versions": {"python": "3.12.3", "numpy": "2.5.2", "cupy": "14.2.0"},
    "git": {"commit": "68f1112", "dirty": True},
    "host": {"system": "Linux x86_64", "cpus": 16},
}


def test_cells_carry_the_value_that_they_are_sorted_by_in_full():
    table = pd.DataFrame({"strategy": ["a", "b"], "mean_s": [1 / 3, None], "runs": [15000, 2]})
    text = to_html(table, "T")
    assert f'<td data-value="{1 / 3!r}">0.3333</td>' in text
    assert '<td data-value="15000">15,000</td>' in text
    assert '<td class="empty">–</td>' in text
    assert '<th scope="row" class="text">a</th>' in text
    text = to_html(pd.DataFrame({"key": list("abc"), "value": [2560, "8.0", ""]}), "T")  # a mixed column
    assert '<td class="text" data-value="2560">2,560</td>' in text
    assert '<td class="text">8.0</td>' in text
    assert '<td class="text empty">–</td>' in text


def test_every_heading_is_a_button_and_the_page_needs_no_other_file():
    text = to_html(pd.DataFrame({"strategy": ["a"], "start_us": [1.0]}), "T")
    headings = re.findall(r'<th scope="col"[^>]*><button type="button">([^<]*)</button></th>', text)
    assert headings == ["strategy", "start (µs)"]
    assert "aria-sort" in text
    assert not re.search(r"""(src|href)=|url\(|https?:""", text)
    assert "<script>" in text and 'tabindex="0"' in text


def test_words_have_a_tone_and_a_legend_of_those_that_occur():
    table = pd.DataFrame({"verdict": ["faster", "not comparable"], "machine": ["quiet", "shared, noisy"]})
    text = to_html(table, "T")
    assert '<span class="word good">faster</span>' in text
    assert '<span class="word plain">not comparable</span>' in text
    assert '<span class="word warn">shared</span>, <span class="word warn">noisy</span>' in text
    legend = ["faster", "not comparable", "quiet", "noisy", "shared"]
    assert re.findall(r"<dt>(?:<[^>]*>)?([a-z ]*)", text) == legend


@pytest.mark.parametrize(
    ("word", "tone"), [("slower", "bad"), ("same", "plain"), ("not significant", "warn"), ("diverged", "bad")]
)
def test_tones(word, tone):
    assert badges(word) == f'<span class="word {tone}">{word}</span>'
    assert badges(f"<new>, {word}") == f'&lt;new&gt;, <span class="word {tone}">{word}</span>'


def test_shading_is_explained_if_there_is_some():
    said = {name: to_html(pd.DataFrame({name: [1.0]}), "T") for name in ("mean_s", "paper_s", "published_s")}
    assert {name: "Shaded" in page for name, page in said.items()} == dict(
        zip(said, [False, True, True], strict=True)
    )


def test_provenance_has_a_row_a_record():
    cells = SWEEPS["neurons"].cells[:2]
    records = {f"{i}.json": record(cell, [1.0, 2.0], **ORIGIN) for i, cell in enumerate(cells)}
    table = provenance.build(records)
    assert table["record"].tolist() == ["0.json", "1.json"]
    row = table.iloc[0]
    of_device = {"cuda_runtime": "13.2", "cupy": "14.2.0", "driver": "580.1", "device_uuid": "GPU-1"}
    of_record = {"commit": "68f1112", "dirty": "yes", "runs": 2, "elapsed_s": 12.5}
    assert row[[*of_device, *of_record]].to_dict() == of_device | of_record
    assert row["source_hash"] == records["0.json"]["provenance"]["source_hash"]
    text = to_html(table, "T")
    for said in ("Driver 580.1.", "CuPy 14.2.0.", "CUDA runtime 13.2.", "Dirty working tree: yes."):
        assert said in text
    assert ">driver<" not in text


def test_versions_that_differ_stay_columns_and_what_a_cpu_lacks_is_left_out():
    cells = SWEEPS["neurons"].cells[:2]
    no_gpu = {"cuda_runtime": None, "driver": None, "device_uuid": None, "backend": "cpu"}
    records = {
        str(i): record(
            cell, [1.0], **ORIGIN | no_gpu | {"versions": {"python": "3", "numpy": str(i), "cupy": None}}
        )
        for i, cell in enumerate(cells)
    }
    text = to_html(provenance.build(records), "T")
    assert ">numpy<" in text
    assert "CuPy" not in text and "None" not in text


def test_configuration_says_what_varies_what_is_derived_and_what_all_share(tmp_path):
    path = tmp_path / "grid.yaml"
    sweeps = {
        "sizes": {"dataset": ["small", "large"], "strategy": ["reference", "streams"]},
        "widths": {"dataset": "small", "strategy": "reference", "network.hidden": [[4], [4, 4]]},
    }
    path.write_text(yaml.safe_dump({"sweeps": sweeps}))
    found = grid.read(path, GPU)
    verdicts = read_yaml(ROOT / "config/verdicts.yaml")
    plain = [{"name": s.name, "axes": s.axes, "cells": s.cells} for s in found.values()]
    memory = {"memory_calls": {"sizes": ["1KiB", "1MiB"], "samples": 6}}
    table = configuration.build(plain, verdicts, GPU, memory)
    values = table.set_index(["sweep", "key"])[["role", "values"]].apply(tuple, axis=1)
    expected = {
        ("sizes", "dataset"): ("axis", "small, large"),
        ("sizes", "dataset.rows"): ("derived", "256, 25600"),
        ("widths", "dataset"): ("fixed", "small"),
        ("widths", "network.hidden"): ("axis", "4, 4-4"),
        ("sizes", "cells"): ("count", "4"),
        ("all sweeps", "training.batch_size"): ("fixed", "256"),
        ("all sweeps", "protocol.relative_error"): ("fixed", "none"),
        ("verdicts", "noisy"): ("threshold", str(verdicts["noisy"])),
        ("memory_calls", "sizes"): ("setting", "1KiB, 1MiB"),
        ("memory_calls", "samples"): ("setting", "6"),
    }
    assert {key: values[key] for key in expected} == expected
    assert not table["key"].str.contains("_target_").any()
    assert not table.duplicated(["sweep", "key"]).any()


def test_a_page_says_what_its_columns_contain():
    table = pd.DataFrame({"strategy": ["a"], "speedup": [1.5], "training.batch_size": [64]})
    text = to_html(table, "T", name="sweep")
    assert "<dt>speedup</dt><dd>mean time of the baseline divided by that of this row</dd>" in text
    assert "<dd>the setting <code>training.batch_size</code></dd>" in text
    assert "What the columns contain" not in to_html(table, "T")


def test_the_page_escapes_rounds_and_says_where_it_was_measured(tmp_path):
    table = pd.DataFrame(
        {
            "name": ["<b>"],
            "reference_std_s": [1 / 3],
            "final_mse": [41.192572021],
            "paper_x": [None],
            "count": [15000],
            "device": "D",
            "backend": "cpu",
        }
    )
    write(table, str(tmp_path / "t.csv"), str(tmp_path / "t.html"), "A title")
    page = (tmp_path / "t.html").read_text()
    for text in ("&lt;b&gt;", ">reference std (s)<", ">0.3333<", ">41.192572<", ">–<", ">15,000<"):
        assert text in page
    assert "Measured on D. Backend: cpu, no GPU was used." in page
    assert pd.read_csv(tmp_path / "t.csv")["reference_std_s"].iloc[0] == 1 / 3
