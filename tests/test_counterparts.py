"""The counterparts in PyTorch that docs/howto/from_the_answer_to_your_code.md shows for each strategy."""

import re

import pytest
from conftest import ROOT

from snn.config import groups
from snn.recommending.counterparts import PAGE, counterpart

TEXT = (ROOT / PAGE).read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
FUNCTIONS = [name for code in BLOCKS for name in re.findall(r"^def train_(\w+)", code, re.MULTILINE)]
ON_A_GPU = ("pipelined", "graph")


def test_the_line_of_a_strategy_leads_to_a_section():
    headings = set(re.findall(r"^## (\w+)$", TEXT, re.MULTILINE))
    lines = [counterpart(name) for name in groups.names("strategy")]
    assert {re.search(rf"{re.escape(PAGE)}#(\w+)", line)[1] for line in lines if line} == headings
    assert counterpart("persistent") and not counterpart("unheard_of")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_the_page_trains(name):
    torch = pytest.importorskip("torch")
    if name in ON_A_GPU and not torch.cuda.is_available():
        pytest.skip("it needs a GPU")
    if name == "persistent":
        pytest.importorskip("snn.estimators")
    if name == "compile":
        pytest.skip("it compiles for half a minute")
    page = {}
    for code in BLOCKS:
        exec(code, page)
    torch.manual_seed(1)
    X = torch.rand(96, 3)
    Y = X.sum(1, keepdim=True)
    if name == "persistent":
        assert page["train_persistent"](X, Y, 3, 32).predict(X.numpy()).shape == (96,)
        return
    model = page["make_network"](3).to(page["device"])
    error = torch.nn.functional.mse_loss(model(X.to(page["device"])), Y.to(page["device"])).item()
    page[f"train_{name}"](model, X, Y, 10, 32)
    device = next(model.parameters()).device
    assert torch.nn.functional.mse_loss(model(X.to(device)), Y.to(device)).item() < 0.8 * error
