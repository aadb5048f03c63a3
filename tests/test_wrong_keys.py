"""Keys that there are not, and values of a wrong sort: refused in our words, not in those of Hydra."""

import pytest

from snn.config import groups, keys
from snn.config.compose import composed
from snn.errors import ConfigError, SnnError

OF_HYDRA = (
    "Hydra",
    "OmegaConf",
    "full_key",
    "object_type",
    "DictConfig",
    "ListConfig",
    "composed",
    "convert",
)


@pytest.mark.parametrize("value", ["5", "abc", "[1]", "{a:1}", "{}", "[null]", "null", "", "[[1]]", "1e400"])
def test_no_value_of_any_key_is_refused_in_the_words_of_hydra(value):
    of_choices = [
        (f"{group}={name}", f"{group}.{key}")
        for group in groups.GROUPS
        for name in groups.names(group)
        for key in groups.options(group, name)
    ]
    settings = dict.fromkeys(keys.known(), "round=1") | {key: choice for choice, key in of_choices}
    for key, beside in settings.items():
        try:
            composed([*([] if key == beside.partition("=")[0] else [beside]), f"{key}={value}"])
        except SnnError as error:
            assert not any(word in str(error) for word in OF_HYDRA), error


CSV = ("dataset=csv", "dataset.path=a.csv", "dataset.target=y")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["kernel.block={a:1}"], "kernel.block is {'a': 1}: it must be the block size [x, y]"),
        (["network.hidden={a:1}"], "network.hidden is {'a': 1}: it must be a list of one or more widths"),
        (
            ["network=layers", "network.layers={a:1}"],
            "network.layers is {'a': 1}: it must be a list of layers, as",
        ),
        (
            ["strategy=ensemble", "strategy.seeds={a:1}"],
            "strategy.seeds is {'a': 1}: it must be a list of whole numb",
        ),
        (["dataset=scv"], "dataset=scv: not a choice (did you mean csv?); dataset must be one of csv, "),
        (["network=mpl"], "(did you mean mlp?)"),
        (
            [*CSV, "dataset.one_hot=true"],
            "dataset.one_hot: dataset=csv has no such key (did you mean dataset.text_columns?); it has",
        ),
        (
            ["training.sum=true"],
            "training.sum: training has no such key (did you mean training.reduction?); it has",
        ),
        (["training.the=true"], "training.the: training has no such key; it has"),
        (
            ["hydra.run.dir=x"],
            "'hydra.run.dir=x' is no argument: there is no such key; the keys are dataset, ",
        ),
        (
            ["trainig.epochs.x=3"],
            "there is no such key (did you mean training.epochs?); the keys are dataset, ",
        ),
        (["training.epochs.x=5"], "training.epochs has no keys of its own: it is given as training.epochs=5"),
        (["network.hidden.0=5"], "is no argument: a list is given whole, as network.hidden=[5]"),
        (["network.hidden[0]=5"], "is no argument: a list is given whole, as network.hidden=[5]"),
        (["network.hidden.0=[5,6]"], "is no argument: a list is given whole, as network.hidden=[5,6]"),
        (["network.hidden.0="], "is no argument: a list is given whole, as network.hidden=[VALUE]"),
        (["network[hidden]=5"], "is no argument: there is no such key (did you mean network.hidden?); the"),
        (
            ["training={epochs:5}"],
            "such key (keys of training are written with a dot: training.epochs=5); the keys",
        ),
        (
            ["network={hidden:[5,3]}"],
            "(keys of network are written with a dot: network.hidden=[5,3]); network mu",
        ),
        (
            ["network={hidden: [5, 3], init: x}"],
            "(keys of network are written with a dot: network.hidden=[5, 3] network.init=x); network mu",
        ),
        (["network={foo: 3}"], "network={foo: 3}: not a choice; network must be one of"),
        (["strategy={name:graph}"], "strategy={name:graph}: not a choice; strategy must be one of"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_what_is_wrong_with_a_key_is_said(arguments, said):
    with pytest.raises(ConfigError) as refused:
        composed(arguments)
    assert said in str(refused.value)
