"""What ``snn recommend`` says of the paper's GPU, of which there are no records."""

import pytest

from snn.config.compose import composed
from snn.recommending import elsewhere


@pytest.mark.parametrize(
    ("settings", "name", "said"),
    [
        (
            ["dataset=large", "training.epochs=7"],
            "Tesla T4",
            "large, 256: combined 1.65 or 2.14, pinned 1.04",
        ),
        (["dataset=small", "strategy=graph"], "Tesla T4", "small, 256: combined 1.66, pinned 1.18, streams"),
        (["dataset=large", "network=three_hidden"], "Tesla T4", "large, 256-1024-256: combined 1.01"),
        (["dataset=large", "training.batch_size=99"], "Tesla T4", None),
        (["dataset=large"], "NVIDIA L4", None),
    ],
)
def test_of_the_papers_gpu_the_papers_speedups_are_said(settings, name, said):
    text = elsewhere.on_a_gpu(composed(settings), name)
    assert ("The paper has speedups over reference on a Tesla T4, without intervals" in text) == bool(said)
    assert (f"Nothing is published for {name}." in text) != bool(said)
    assert said is None or said in text
