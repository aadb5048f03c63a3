"""What is refused of a command line and of a grid: a case a line, and what must be named. Status 2, one line.

A line is the input, `=>`, and a part of the message: the key, the value, or what would be right.
"""

import copy
import os
import re
import shlex

import pytest
import yaml
from test_grid import CPU, DEFAULT, refusal, sweeps_of, written

from snn import cli
from snn.config import choices, groups
from snn.config.compose import composed
from snn.config.settings import KINDS, Range
from snn.config.yaml_file import read_text
from snn.errors import ConfigError, DataError, SnnError
from snn.files import project
from snn.grid import plans, sweeps
from snn.measurement import cell

OF_HYDRA = ("hydra", "Hydra", "--multirun to your", "override_grammar", "convert", "Exception", "viable")
OF_HYDRA += ("Optional", "OmegaConf", "full_key", "object_type", "DictConfig", "ListConfig", "composed")


def cases(table):
    """The input and the part of the message in each line of a table."""
    return [tuple(line.strip().split(" => ")) for line in table.strip().splitlines()]


COMMAND_LINES = r"""
    --epochs 10 => '--epochs' is not an argument: it must be KEY=VALUE (did you mean training.epochs=10?); the
    --epochs=10 => must be KEY=VALUE (did you mean training.epochs=10?); the options are --help
    --batch-size 64 => did you mean training.batch_size=64?
    --colour => it must be KEY=VALUE, such as training.epochs=10; the options are --help and --strict
    --multirun => for several cells, snakemake runs the sweep of a grid file
    -m strategy=a => for several cells, snakemake runs the sweep
    [[ => not an argument: it must be KEY=VALUE
    network.hidden=[64, 64] => where the shell splits arguments: put it in quotes, 'network.hidden=[64, 64]'
    network.layers=[linear 8, relu] => put it in quotes, 'network.layers=[linear 8, relu]'
    network.hidden=[64 => 'network.hidden=[64': a bracket is not closed
    network.hidden=64] => a bracket is closed but was not opened
    network.hidden=256 => network.hidden is 256: it must be a list of one or more widths
    network.hidden=256,128 => write a list in brackets: network.hidden=[256,128]
    network.hidden=(64,64) => write a list in square brackets
    network.hidden=[64;64] => write a list in square brackets
    network.hidden=3 => network.hidden is 3: it must be a list
    network.hidden=[] => network.hidden is []: it must be a list of one or more widths
    network.hidden=[0] => network.hidden is [0]
    network.hidden={a:1} => network.hidden is {'a': 1}: it must be a list of one or more widths
    strategy=combined,reference => several are an axis of a sweep in a grid file, strategy: [combined, referen
    strategy=[combined,reference] => a sweep in a grid file, strategy: [combined, reference]
    training.batch_size=64,128 => are an axis of a sweep in a grid file, training.batch_size: [64, 128]
    training.epochs=range(1,5) => a cell has one training.epochs; several are an axis of a sweep
    training.epochs=glob(*) => a cell has one training.epochs; several are an axis of a sweep
    dataset.path=x => dataset=small has no such key (it is one of dataset=csv, dataset=fashion,
    dataset.pth=x => dataset=small has no such key; it has rows, features, noise, seed
    strategy.tile_rows=3 => it is one of strategy=combined, strategy=combined_kept, strategy=streams
    network.layers=[relu] => has no such key (it is one of network=cnn, network=cnn_pytorch, network=layers)
    protocol.runs=1 protocol.min_runs=5 => protocol.min_runs is 5: it must be at most protocol.runs
    protocol.min_runs=11 => protocol.min_runs is 11: it must be at most protocol.runs, which is 10
    +colour=1 => KEY=VALUE, such as training.epochs=10; keys cannot be added (+) or removed (~)
    ++training.epochs=1 => (did you mean training.epochs=1?); keys cannot be added
    ~strategy => (did you mean strategy=reference?); keys cannot be added (+) or removed (~)
    strategy:combined => it must be KEY=VALUE (did you mean strategy=combined?)
    'strategy =combined' => KEY=VALUE (did you mean strategy=combined?)
    training/epochs=1 => it must be KEY=VALUE (did you mean training.epochs=1?)
    Training.epochs=1 => it must be KEY=VALUE (did you mean training.epochs=1?)
    strategy => it must be KEY=VALUE (did you mean strategy=reference?)
    config/grid.yaml => a grid file is run by snakemake --cores 1 --config grid=FILE
    grid=g.yaml => grid: unknown key (a grid file is run by snakemake
    epochs=10 => epochs: unknown key (did you mean training.epochs?); the keys are dataset, network
    hidden=[64] => (did you mean network.hidden?)
    lr=0.1 => (did you mean training.learning_rate?)
    strateg=combined => (did you mean strategy?)
    trainig.epochs=10 => (did you mean training.epochs?)
    trainin.epochs=3 => the keys are dataset, network
    training.epoch=10 => training has no such key (did you mean training.epochs?); it has epochs
    network.hiden=[3] => one_hidden has no such key (did you mean network.hidden?); it has hidden, bias
    hydra.run.dir=x => 'hydra.run.dir=x' is not an argument: unknown key; the keys are dataset,
    trainig.epochs.x=3 => is not an argument: it must be KEY=VALUE (did you mean training.epochs=3?)
    training.epochs.x=5 => is not an argument: it must be KEY=VALUE (did you mean training.epochs=5?)
    network.hidden.0=5 => is not an argument: it must be KEY=VALUE (did you mean network.hidden=[5]?)
    network.hidden[0]=5 => is not an argument: it must be KEY=VALUE (did you mean network.hidden=[5]?)
    network.hidden.0=[5,6] => is not an argument: it must be KEY=VALUE (did you mean network.hidden=[5,6]?)
    network.hidden.0= => is not an argument: it must be KEY=VALUE (did you mean network.hidden=[VALUE]?)
    network[hidden]=5 => is not an argument: it must be KEY=VALUE (did you mean network.hidden=[5]?)
    training.sum=true => training.sum: training has no such key (did you mean training.reduction?); it has
    training.the=true => training.the: training has no such key; it has
    CSV dataset.one_hot=true => dataset=csv has no such key (did you mean dataset.text_columns?); it has
    training={epochs:5} => unknown key (keys of training are written with a dot: training.epochs=5); the keys
    network={hidden:[5,3]} => (keys of network are written with a dot: network.hidden=[5,3]); network mu
    'network={hidden: [5, 3], init: x}' => with a dot: network.hidden=[5, 3] network.init=x); network mu
    'network={foo: 3}' => network={foo: 3}: not a choice; network must be one of
    strategy={name:graph} => strategy={name:graph}: not a choice; strategy must be one of
    dataset=smal => must be one of csv, fashion, idx, large, medium, mnist, patterns, small
    dataset=nope => dataset=nope: not a choice
    dataset=scv => dataset=scv: not a choice (did you mean csv?); dataset must be one of csv,
    strategy=combind => strategy=combind: not a choice (did you mean combined?); strategy must be one of
    strategy=Combined => (did you mean combined?)
    device=gpu => device=gpu: not a choice (did you mean cuda?); device must be one of auto, cpu, cuda
    precision=fp16 => precision=fp16: not a choice; precision must be one of bf16, fp32, tf32
    dataset=data/wine.csv => dataset=csv dataset.path=data/wine.csv dataset.target=COLUMN)
    network=128 => network=128: not a choice (widths are network.hidden=[128])
    network=mpl => (did you mean mlp?)
    training.learning_rate=-1 => training.learning_rate is -1: it must be a number above 0
    training.learning_rate=nan => training.learning_rate is nan
    training.learning_rate=fast => training.learning_rate is 'fast': it must be a number above 0
    training.batch_size=300 => it must be at most 256, the number of rows of dataset=small
    network=layers network.layers=[linear] => 'linear' is not right: it must be linear WIDTH
    network=layers network.layers=[] => network.layers is []: it must be a list of layers
    network=layers network.layers={a:1} => network.layers is {'a': 1}: it must be a list of layers, such as
    network=layers 'network.layers=[conv2d 4 3,linear 1]' => conv2d needs images
    network=layers network.loss=mse => network.loss is 'mse': it must be one of mean_squared
    network.init=zeros => one of uniform01, he_uniform, kaiming_uniform
    network.init=uniform => network.init is 'uniform': it must be one of uniform01, he_uniform
    network.update_order=none => one of sequential, simultaneous
    network.clip_norm=0 => above 0 or null for no clipping
    protocol.runs=0 => protocol.runs is 0
    protocol.warmup_seconds=-1 => protocol.warmup_seconds is -1: it must be a number, at least 0
    protocol.max_seconds=0 => above 0 or null for no limit
    protocol.max_seconds=x => protocol.max_seconds is 'x': it must be a number above 0 or null
    protocol.neighbour=[a] => protocol.neighbour is ['a']: it must be one of any, none
    protocol.neighbour=referenc => workspace (did you mean reference?)
    strategy=streams strategy.tile_rows=0 => strategy.tile_rows is 0
    strategy=combined strategy.streams=0 => strategy.streams is 0
    strategy=streams strategy.streams=x => strategy.streams is 'x'
    strategy=ensemble strategy.starts=0 => strategy.starts is 0: it must be a whole number
    strategy=ensemble strategy.seeds=3 => strategy.seeds is 3: it must be a list of at most 512 whole
    strategy=ensemble strategy.seeds={a:1} => strategy.seeds is {'a': 1}: it must be a list
    strategy=ensemble strategy.seeds=[1,1] => from 1 to 2147483647, each once, such as [1, 2, 3], or []
    strategy=ensemble strategy.learning_rates=[0] => numbers above 0 and finite in float32, each once
    strategy=ensemble strategy.initialisers=[ones] => initialisers, each once, of uniform01, he_
    kernel.block=[64,64] => at most 1024 threads
    kernel.block=16 => kernel.block is 16: it must be the block size [x, y]
    kernel.block=[a,b] => kernel.block is ['a', 'b']: it must be the block size
    kernel.block={a:1} => kernel.block is {'a': 1}: it must be the block size [x, y]
    kernel.work=x => kernel.work is 'x': it must be the rows and columns
    dataset.noise=loud => dataset.noise is 'loud': it must be a number
    dataset=csv => dataset.path and dataset.target are missing: dataset=csv needs them; set them with data
    dataset=csv dataset.path=x => dataset.target is missing: dataset=csv needs it; set it with
    CSV dataset.target=true => dataset.target is True: it must be the target column
    CSV dataset.target=1.5 => dataset.target is 1.5: it must be the target column's name
    CSV dataset.target=null => dataset.target is None: it must be
    CSV dataset.target=[y] => dataset.target is ['y']: it must be
    CSV dataset.path=3 => dataset.path is 3: it must be the path of a file
    CSV dataset.path= => dataset.path is '': it must be the path of a file
    CSV dataset.sha256=12 => dataset.sha256 is 12: it must be 64 hexadecimal digits, or null
    CSV dataset.standardise=1 => dataset.standardise is 1: it must be true or false
    CSV dataset.held_out=1 => dataset.held_out is 1: it must be a number from 0 to 0.9: some rows must
    CSV dataset.held_out=-0.1 => dataset.held_out is -0.1: it must be a number from 0 to 0.9
    CSV dataset.shuffle_seed=-1 => dataset.shuffle_seed is -1
    CSV dataset.text_columns=onehot => dataset.text_columns is 'onehot': it must be one of error, one_hot, dr
    CSV dataset.missing=drop => dataset.missing is 'drop': it must be one of error, drop_rows
    CSV dataset.task=rank => dataset.task is 'rank': it must be one of regression, classification
    training.reduction=median => training.reduction is 'median': it must be one of mean, sum
    round=x => round is 'x': it must be from 1 to 1000
    output=[a] => output is ['a']: it must be the path of a file
    output=3 => output is 3: it must be the path of a file, in quotes if it looks like a number
    data={a:1} => data is {'a': 1}: it must be the path of a file
    device=cpu device.name=3 => device.name is 3: it must be the name of a device, in quotes
    "output='a b" => the value cannot be read: text with such characters needs quotes
    kernel.name=tiled => is part of kernel=naive: choose with kernel=
    kernel.source=kernels/tiled.cu => choose with kernel=..., one of cublas, fused
    kernel=tiled kernel.fused=true => is part of kernel=tiled
    device=cpu device.backend=cuda => is part of device=cpu
    round.x=1 => round.x: unknown key
    'output=${oc.env:HOME}/x.json' => ${...} is not replaced
    training.epochs=1 training.epochs=2 => training.epochs=1 before
    dataset.rows={a:1} => dataset.rows is {'a': 1}: it must be a whole number
    dataset.noise=-0.0 => dataset.noise is -0.0
    kernel.block=[16] => kernel.block is [16]: it must be the block size
    CSV dataset.path=[a] => dataset.path is ['a']: it must be the path
    CSV dataset.delimiter=ab => dataset.delimiter is 'ab'
    network.hidden=[1000000000000] => network.hidden is [1000000000000]
    strategy=ensemble strategy.seeds=[4294967296] => whole numbers from 1 to 2147483647
    ENSEMBLE strategy.folds=1 => strategy.folds is 1: it must be 0, or at least 2
    ENSEMBLE strategy.folds=2 strategy.bootstraps=2 => strategy.folds is 2: it must be 0, since
    ENSEMBLE strategy.weight_decays=[-1] => numbers of at least 0, each once
    ENSEMBLE strategy.starts=30000 => weight_decays are 120000 networks
    training.learning_rate=1e-320 => in float32
    training.learning_rate=inf => training.learning_rate is inf
    kernel.block=[1,2000] => at most 1024 threads
    kernel=tiled_fused kernel.work=[1,1000] => kernel.work is [1, 1000]
    network.hidden=[46341,46341] => a matrix has 2147488281 elements, but kernels count in 32 bits
    training.accumulate=3 => accumulate is 3: it must divide training.batch_size=256, the rows of one
    training.accumulate=3 => as 2 or 4 does
    training.accumulate=512 => it must divide training.batch_size=256
    training.shuffle=always => training.shuffle is 'always': it must be one of none, epoch
    training.accumulate=0 => training.accumulate is 0: it must be a whole number, at least 1
    training.accumulate=4 => choose network.update_order=simultaneous
    training.accumulate=4 network.update_order=simultaneous training.gradient=published_naive => choose
    network.recompute=[1] training.gradient=published_optimised => network.recompute is set: train
    network.recompute=[2] => network.recompute names 2: it must be the number of a hidden layer: 1
    network.recompute=[1,1] => network.recompute is [1, 1]: it must be a list of layers, each once
    network.recompute=1 => network.recompute is 1: it must be a list of layers
    network.recompute=[true] => network.recompute names True: it must be the number of a hidden
    network.recompute=[1.0] => network.recompute names 1.0: it must be the number of a hidden
    LAYERS network.recompute=[0] => names 0: it must be the number of a layer in network.layers that is not
    LAYERS network.recompute=[2] => names 2: it must be the number of a layer in network.layers that is not in
    LAYERS network.recompute=[4] => names 4: it must be
    LAYERS network.recompute=[x] => names 'x': it must be the number of a layer in network.layers that is not
    LAYERS network.recompute=[4] => in place, nor the last: 1, 3
    network=layers 'network.layers=[linear 1]' network.recompute=[1] => nor the last: there is none
"""
CSV = ("dataset=csv", "dataset.path=t.csv", "dataset.target=y")
WRONG_OF_TABLES = {
    "header": ("0", "-1", "1.5", "x"),
    "decimal": (":", "1"),
    "thousands": ("ab", "0"),
    "comment": ("a", "'\"'"),
    "encoding": ("klingon", "base64", "1"),
    "drop": ("1", "[true]", "['']", "[a,a]"),
    "na_values": ("1", "[true]", "[null]"),
    "delimiter": ("", "',,'", "'\"'", "1", "e", "'.'", "'-'", "ab", "'\ufeff'"),
}
NO_COUNTS = {"many": "'many'", "1.5": 1.5, "0": 0, "'10'": "'10'", "": "''", "null": None, "[1,2]": [1, 2]}
NO_COUNTS |= {"{a:1}": {"a": 1}}
NAMED = {
    "ENSEMBLE": ("strategy=ensemble", "strategy.seeds=[1,2]", "strategy.learning_rates=[1,2]"),
    "LAYERS": ("network=layers", "network.layers=[linear 8, relu, linear 4, linear 1, relu]"),
}


def words(text):
    """Arguments as a shell reads them; CSV stands for those of a table, but for the ones that are given."""
    found = shlex.split(text)
    if found[0] == "CSV":
        given = {word.partition("=")[0] for word in found}
        found = [word for word in CSV if word.partition("=")[0] not in given] + found[1:]
    return [*NAMED.get(found[0], found[:1]), *found[1:]]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        *((words(text), said) for text, said in cases(COMMAND_LINES)),
        *(([*CSV, f"dataset.delimiter='{one}'"], "text without control") for one in "\n\r\x00"),
        *(
            ([*CSV, f"dataset.{key}={one}"], f"dataset.{key} is ")
            for key, values in WRONG_OF_TABLES.items()
            for one in values
        ),
        *(
            (
                [f"training.epochs={given}"],
                f"training.epochs is {shown}: it must be a whole number, at least 1",
            )
            for given, shown in NO_COUNTS.items()
        ),
        (["dataset=csv", "dataset.path='a\nb'", "dataset.target=y"], "text without control characters"),
        *(([f"output=a{mark}b"], "control characters") for mark in "\n\0"),
        (["output=\udcff"], "bytes that are not UTF-8"),
        *(([f"network.hidden={opening * 400}"], "a value may be a list") for opening in ("[", "(", "{a:")),
        (["network.hidden=[" + "1," * 10_000 + "1]"], "at most 16384 characters"),
        (["dataset.seed=" + "9" * 20_000], "at most 16384 characters"),
        (["network.hidden=[" + "1," * 1000 + "1]"], "of fewer layers"),
        *(([f"{key}={'9' * 4000}"], f"{key} is 9999") for key in ("training.epochs", "dataset.seed")),
    ],
    ids=lambda value: str(value)[:80],
)
def test_a_command_line_is_refused(capsys, monkeypatch, arguments, said):
    monkeypatch.setattr(cell, "record_and_network", lambda settings: pytest.fail("it was measured"))
    assert cli.main(["run", *arguments]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("snn: ") and shown.count("\n") == 1
    assert said in shown
    assert not any(word in shown and word not in str(arguments) for word in OF_HYDRA), shown


NEEDED = {"csv": CSV[1:], "idx": ["dataset.path=images"]}
BESIDE = {
    **dict.fromkeys(choices.known(), ()),
    **{
        f"{group}.{key}": (f"{group}={name}", *NEEDED.get(name, ()))
        for group in groups.GROUPS
        for name in groups.names(group)
        for key in groups.options(group, name)
    },
}
"""What has to be chosen for a key to be one."""


@pytest.mark.parametrize("key", [key for key, kind in KINDS.items() if isinstance(kind, Range)])
def test_a_number_beyond_its_range_is_refused_with_the_reason(key):
    kind = KINDS[key]
    with pytest.raises(ConfigError) as caught:
        composed([*BESIDE[key], f"{key}={kind.most * 2}"])
    assert f"{key} is " in str(caught.value)
    assert f"from {kind.least:.12g} to {kind.most:.12g}: {kind.reason}" in str(caught.value)


@pytest.mark.parametrize("value", ["5", "abc", "[1]", "{a:1}", "{}", "[null]", "null", "", "[[1]]", "1e400"])
def test_no_value_of_any_key_is_refused_in_the_words_of_hydra(value):
    for key, beside in BESIDE.items():
        try:
            composed([*(one for one in beside if one.partition("=")[0] != key), f"{key}={value}"])
        except SnnError as error:
            assert not any(word in str(error) for word in OF_HYDRA), error


SWEEPS = r"""
    {datset: small} => : sweeps.x: 'datset' is not a key here (did you mean dataset?): one of dataset, network
    {datset: small} => , or a key of the chosen data set, strategy or kernel, such as dataset.rows
    {dataset.rows: 64, strategy.x: [1], training.epoch: 3} => 'training.epoch' is not a key here (did you mean
    {training: {epochs: 3}} => not a key here (keys of training are written with a dot: training.epochs: 3)
    {training: {epochs: 3}, stratgy: graph, tune: 3} => 'training' (keys of training are written with a dot:
    {training: {epochs: 3}, stratgy: graph, tune: 3} => 'stratgy' (did you mean strategy?), 'tune' are not key
    {a: 1, b: 1, c: 1, d: 1, e: 1, f: 1, g: 1} => 'a', 'b', 'c', 'd', 'e' are not keys here: one of
    {epochs: 3} => 'epochs' is not a key here (did you mean training.epochs?)
    {stratgy: graph} => 'stratgy' is not a key here (did you mean strategy?)
    {strategy._target_: os.system} => 'strategy._target_' is not a key here
    {precision.name: bf16} => 'precision.name' is not a key here
    {device.name: x} => 'device.name' is not a key here
    {network: {hidden: [64]}} => sweeps.x.network is {'hidden': [64]}: it must be one of cnn
    {network: {hidden: [64]}} => keys of network are written with a dot: network.hidden: [64]
    {dataset: {path: x}} => keys of dataset are written with a dot: dataset.path: 'x'
    {dataset: smal} => sweeps.x.dataset is 'smal': it must be one of csv, fashion, idx
    {dataset: smal} => patterns, small (did you mean small?)
    {dataset: [small, smal]} => sweeps.x.dataset.1 is 'smal'
    {dataset: [small, small, smal]} => sweeps.x.dataset.2 is 'smal'
    {dataset: [small, small]} => sweeps.x.dataset is ['small', 'small']: it must be a list without duplicates
    {dataset: []} => sweeps.x.dataset is []
    {dataset: null} => sweeps.x.dataset is None: it must be one of csv, fashion, idx, large, medium, mnist
    {dataset: wine.csv} => (your own file is dataset: csv dataset.path: wine.csv dataset.target: COLUMN)
    {strategy: [combined, referense]} => sweeps.x.strategy.1 is 'referense': it must be one of async_pool
    {strategy: [combined, referense]} => (did you mean reference?)
    {strategy: "combined,reference"} => (write a list in brackets, [combined,reference])
    {network: 128} => sweeps.x.network is 128: it must be one of
    {network: 128} => (widths are network.hidden: [128])
    {strategy.tile_rows: 3} => (it is one of strategy=combined, strategy=combined_kept, strategy=streams)
    {strategy.tile_rows: [64, 128]} => strategy.tile_rows: strategy=reference has no such key
    {strategy: streams, strategy.tile_rows: 0} => strategy.tile_rows is 0
    {strategy: streams, strategy.tile_rows: []} => strategy.tile_rows is []: it must be a value
    {strategy: torch_compile, strategy.mode: max-autotune} => strategy.mode is 'max-autotune':
    {strategy: ensemble, strategy.learning_rates: ["1e-3"]} => rates is ['1e-3']: it must be
    {strategy: ensemble, strategy.seeds: [[1, 2], [0]]} => strategy.seeds is [0]: it must be
    {strategy: ensemble, strategy.seeds: [[1], [true]]} => strategy.seeds is [True]
    {strategy: ensemble, strategy.starts: 100000000000000000} => strategy.starts is 100000000000000000
    {strategy.name: combined} => strategy.name cannot be set
    {network.hidden: 256} => sweeps.x.network.hidden is 256: it must be a list of one or more widths
    {network.hidden: []} => sweeps.x.network.hidden is []
    {network.hidden: [0]} => sweeps.x.network.hidden is [0]: it must be a list of one or more widths
    {network.hidden: [8, 0]} => sweeps.x.network.hidden is [8, 0]
    {network.hidden: [[3], [0]]} => sweeps.x.network.hidden.1 is [0]
    {network.hidden: [[8], 0]} => sweeps.x.network.hidden.1 is 0
    {network.hidden: [[8], [8]]} => a list without duplicates
    {network.hidden: [1000000000000]} => network.hidden is [1000000000000]
    {network.hidden: {a: 1}} => sweeps.x.network.hidden is {'a': 1}
    {network.layers: relu} => sweeps.x.network.layers is 'relu': it must be a list of layers
    {network.layers: [relu]} => network.layers: network=one_hidden has no such key (it is one of network=cnn
    {network: layers, network.layers: [[linear 1], [swish]]} => 'swish' is not a layer
    {network: layers, network.layers: ["linear ٣", linear 1]} => is not right
    {network: layers, network.loss: mse} => network.loss is 'mse': it must be
    {network.init: zeros} => network.init is 'zeros': it must be one of uniform01, he_uniform, kaiming_uniform
    {network.seed: 4294967296} => network.seed is 4294967296
    {network.seed: true} => sweeps.x.network.seed is True: it must be a whole number
    {network.seed: null} => sweeps.x.network.seed is None: it must be a whole number
    {network.seed: [1, true, 1.0]} => sweeps.x.network.seed.1 is True
    {training.epochs: 0} => sweeps.x.training.epochs is 0: it must be a whole number
    {training.epochs: 1.0} => training.epochs is 1.0: it must be a whole number
    {training.epochs: 100000000000000000} => training.epochs is 100000000000000000: it must be a whole number
    {training.batch_size: 300} => training.batch_size is 300: it must be at most 256, the number of rows of
    {training.learning_rate: "1e-3"} => training.learning_rate is '1e-3': it must be a number above 0
    {training.epochs: 1e1} => training.epochs is 10.0: it must be a whole number
    {training.learning_rate: 1.0e+308} => training.learning_rate is 1e+308
    {training.learning_rate: 1.0e-320} => in float32
    {training.learning_rate: true} => training.learning_rate is True: it must be a number above 0
    {training.learning_rate: [1, 1.0]} => a list without duplicates
    {training.gradient: published} => one of exact, published_naive, published_optimised (did you mean
    {training.reduction: [mean, max]} => sweeps.x.training.reduction.1 is 'max': it must be one of mean
    {training.drop_last: 1} => sweeps.x.training.drop_last is 1: it must be true or false
    {protocol.runs: 1, protocol.min_runs: 5} => protocol.min_runs is 5: it must be at most protocol.runs
    {protocol.runs: 1000000000000} => protocol.runs is 1000000000000
    {protocol.rounds: 1000000000000} => protocol.rounds is 1000000000000
    {protocol.max_seconds: 1.0e-300} => a number from 0.001 to 86400
    {kernel.block: 16} => kernel.block is 16: it must be the block size [x, y]
    {kernel.block: [16, 16, 16]} => kernel.block is [16, 16, 16]
    {kernel.block: [[16, 16], 16]} => kernel.block is 16
    {kernel.block: ["16", "16"]} => kernel.block is ['16', '16']
    {kernel.block: [1, 2000]} => kernel.block is [1, 2000]
    {kernel.block: null} => kernel.block is None
    {kernel: tiled_fused, kernel.work: 3} => kernel.work is 3
    {kernel.name: tiled} => kernel.name cannot be set, because it is part of kernel=naive
    {kernel.source: x.cu} => kernel.source cannot be set
    {kernel.fused: true} => kernel.fused cannot be set
    {kernel.precisions: [bf16]} => kernel.precisions cannot be set
    {dataset.name: large} => dataset.name cannot be set, because it is part of dataset=small
    {dataset.rows: 100000000000000000} => dataset.rows is 100000000000000000: it must be a whole number from 1
    {dataset.rows: true} => dataset.rows is True
    {dataset.rows: null} => dataset.rows is None
    {dataset.rows: 256.0} => dataset.rows is 256.0: it must be a whole number
    {dataset.rows: {a: 1}} => sweeps.x.dataset.rows is {'a': 1}: it must be text, a number
    {dataset.noise: true} => dataset.noise is True
    {dataset: csv} => : sweeps.x: dataset.path and dataset.target are missing
    {dataset: csv, dataset.path: "${oc.env:HOME}/x", dataset.target: 0} => ${...} is not replaced
    {dataset: csv, dataset.path: "a\nb", dataset.target: 0} => without control characters
    {dataset: csv, dataset.path: "a\0b", dataset.target: 0} => without control characters
    {dataset: csv, dataset.path: "", dataset.target: 0} => dataset.path is ''
    {dataset: csv, dataset.path: 3, dataset.target: 0} => dataset.path is 3: it must be the path
    {dataset: csv, dataset.path: x, dataset.target: true} => dataset.target is True
    {dataset: csv, dataset.path: x, dataset.target: 0, dataset.delimiter: "1"} => is '1'
    {on_cpu: {dataset: smal}} => sweeps.x.on_cpu.dataset is 'smal'
    {on_cpu: []} => sweeps.x.on_cpu is []: it must be settings, each a key with its value
    {on_cpu: {training.epochs: 0}} => sweeps.x.on_cpu.training.epochs is 0
    {on_cpu: {devices: cpu}} => 'devices' is not a key here (it belongs in a sweep, or next to defaults)
    {union: [{on_cpu: {on_cpu: {}}}]} => sweeps.x.union.0.on_cpu: 'on_cpu' is not a key here (it belongs in a
    {union: [{devices: cpu}]} => sweeps.x.union.0: 'devices' is not a key here (it belongs in a sweep
    {union: []} => sweeps.x.union is []: it must be a list of products
    {union: [[]]} => sweeps.x.union.0 is []: it must be settings
    null => sweeps.x is None: it must be settings
"""


@pytest.mark.parametrize(("sweep", "said"), cases(SWEEPS))
def test_a_sweep_is_refused(tmp_path, sweep, said):
    shown = refusal(written(tmp_path, f"sweeps: {{x: {sweep}}}"))
    assert "sweeps.x" in shown and said in shown


@pytest.mark.parametrize(
    ("sweep", "said"),
    [
        ({"dataset": "csv", "dataset.path": "x" * 5000, "dataset.target": 0}, "at most 4096 characters"),
        ({"network.hidden": [256] * 1000}, "it must be of fewer layers"),
        ({"strategy": "ensemble", "strategy.seeds": list(range(1, 1000))}, "a list of at most 512"),
        ({"network": "layers", "network.layers": ["linear " + "9" * 4000]}, "it must be linear WIDTH"),
        ({"network.seed": [*range(1, 50_000), 1]}, "network.seed"),  # soon
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_long_sweep_is_refused(tmp_path, sweep, said):
    assert said in refusal(written(tmp_path, yaml.safe_dump({"sweeps": {"x": sweep}})))


def test_a_missing_table_is_refused(tmp_path):
    sweep = {"dataset": "csv", "dataset.path": str(tmp_path / "none.csv"), "dataset.target": "y"}
    shown = refusal(written(tmp_path, yaml.safe_dump({"sweeps": {"x": sweep}})), DataError)
    assert "sweeps.x" in shown and "none.csv: cannot be read" in shown


GRIDS = r"""
    {sweeps: {speedup: {}}} => sweeps.speedup: the name is taken by a table or figure
    {sweeps: {time_by_depth: {}}} => the name is taken by a table or figure
    {sweeps: {overview: {}}} => : sweeps.overview: the name is taken by a table or figure
    {sweeps: {cnn_block_epochs: {}}} => the name is taken by a table or figure
    {sweeps: {neurons: {strategy: combined}}} => reference is missing: neurons.csv
    {sweeps: {neurons: {strategy: reference}}} => combined is missing: neurons.csv
    {sweeps: {dataset_size: {only: true, dataset: large}}} => small is missing: correctness.csv
    {sweeps: {neurons: {dataset: [small, large]}}} => 2 cells are reference with 128, neurons.csv has room for
    {sweeps: {dataset_size: {training.epochs: [1, 2]}}} => 2 cells are reference with small, correctness.csv h
    {sweeps: {cpu: {only: true, strategy: ensemble}}} => a run of ensemble trains several networks, but
    {sweeps: {cnn_programs: {only: true, strategy: reference}}} => dataset: small has no test rows, and cnn_pr
    {sweeps: {cnn_block_size: {only: true, dataset: patterns}}} => network: 256 is not trained with cross_entr
    {sweeps: {cnn_loader: {only: true, dataset: patterns, network: cnn}}} => strategy: torch_loader is missing
    {on_gpu: {}} => : 'on_gpu' is not a key here
    {microbenchmarks: {batches: {strategy: reference}}} => microbenchmarks: 'batches' is not a key here (a swe
    {microbenchmarks: {shapes: 3}} => microbenchmarks.shapes is 3: it must be the settings of shapes
    {microbenchmarks: {shapes: {on_cpu: 3}}} => microbenchmarks.shapes.on_cpu is 3: it must be the settings of
    {microbenchmarks: []} => microbenchmarks is []
    {defaults: {on_cpu: {}}} => defaults: 'on_cpu' is not a key here (it belongs in a sweep
    {device: gpu} => device is 'gpu': it must be one of auto, cpu, cuda (did you mean cuda?)
"""


@pytest.mark.parametrize(("change", "said"), cases(GRIDS))
def test_a_change_of_the_grid_is_refused(tmp_path, change, said):
    changed = copy.deepcopy(DEFAULT)
    for key, values in yaml.safe_load(change).items():
        if key == "sweeps":
            for name, settings in values.items():
                beside = {} if settings.pop("only", False) else changed["sweeps"].get(name, {})
                changed["sweeps"][name] = beside | settings
        else:
            changed[key] = {**changed.get(key, {}), **values} if isinstance(values, dict) else values
    assert said in refusal(written(tmp_path, yaml.safe_dump(changed)))


SWEEP = "sweeps:\n  x:\n    "
BOMB = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"a{i + 1}: &a{i + 1} [{', '.join([f'*a{i}'] * 9)}]\n" for i in range(20)
)
DEEP = "a0: &a0 [[[[[[[[[[1]]]]]]]]]]\n" + "".join(
    f"a{i + 1}: &a{i + 1} [[[[[[[[[[*a{i}]]]]]]]]]]\n" for i in range(200)
)
NO_YAML = ("Off", "1:30", "017", "0o17", "0x1F", "0b11", "1_000", "2020-01-01", "2020-01-01 10:00:00")
FILES = r"""
    # nothing => : the file is empty: it must be the keys
    a text => the file is 'a text': it must be the keys
    [1, 2] => the file is [1, 2]: it must be the keys
    17 => : the file is 17
    strategy: graph => the key sweeps is missing: a grid has sweeps, such as sweeps: {mine
    sweep: {} => the key sweeps is missing (is sweep meant to be it?)
    sweeps: {} => sweeps is {}: it must be one or more sweeps
    sweeps: null => sweeps is None: it must be one or more sweeps
    sweeps: [a] => sweeps is ['a']
    sweeps: {x: {}}|colour: red => 'colour' is not a key here: one of device, devices, defaults, on_cpu, sweep
    sweeps: {x: {dataset: smal}}|colour: red => : 'colour' is not a key here
    colour: red|sweeps: {x: {dataset: [small, 3]}} => : 'colour' is not a key here
    sweeps: {x: {}}|defaults: => defaults is None: it must be settings
    sweeps: {x: {}}|on_cpu: null => on_cpu is None: it must be settings
    sweeps: {x: {}}|device: 7 => device is 7: it must be one of auto, cpu, cuda
    sweeps: {x: {}}|device: [cpu] => device is ['cpu']: it must be one of auto, cpu, cuda
    sweeps: {x: {}}|device: => device is None: it must be one of auto, cpu, cuda
    1: 2 => , line 1: the key 1 is not text: write it in quotes
    sweeps:|  true: {} => , line 2: sweeps: the key true is not text
    sweeps:|  null: {} => , line 2: sweeps: the key null is not text
    sweeps:|  ~: {} => the key ~ is not text
    sweeps:|  1.5: {} => the key 1.5 is not text
    sweeps:|  2020-01-01: {} => 2020-01-01 is not valid: a value is true, false, a number
    sweeps:|  on: {} => on is not valid
    sweeps:|  a: {}|  a: {} => , line 3: sweeps: the key 'a' appears twice
    sweeps: [ => , line 1: 'sweeps: [': a value or a closing bracket is missing
    ? [a, b]|: 1 => , line 1: a key must be text, not a list
    ? {a: b}|: 1 => , line 1: a key must be text, not a list, a mapping
    a: &a x|*a : 1 => a key must be text, not a list, a mapping or an alias
    SWEEP<<: {dataset: small} => , line 3: sweeps.x: the merge key << is not read
    SWEEPdataset: small|    dataset: large => , line 4: sweeps.x: the key 'dataset' appears twice
    a: &a [*a] => , line 1: a.0: *a comes before the end of its anchor
    sweeps: &s|  x: *s => , line 2: sweeps.x: *s comes before the end of its anchor
    a: *b => *b comes before the end of its anchor, or has none
    SWEEPtraining.epochs: !!python/object/apply:os.system [touch x] => the tag 'tag:yaml.org,2002:pyth
    SWEEPtraining.epochs: !!int '3' => the tag 'tag:yaml.org,2002:int' is not read
    SWEEPnetwork.seed: [!!set {}, !!set {}] => is not read: leave it out
    SWEEPtraining.epochs: yes => , line 3: sweeps.x.training.epochs: yes is not valid: a value is true
    SWEEPtraining.learning_rate: .nan => .nan is not valid
    SWEEPtraining.learning_rate: -.inf => -.inf is not valid
    SWEEPtraining.learning_rate: 1.0e+400 => 1.0e+400 is not finite
    SWEEPdataset.noise: -0.0 => -0.0 is not finite, or a 0 with a sign
    sweeps: {x: {}}|---|sweeps: {y: {}} => , line 2: a second document begins
    sweeps: {x: {} => , line 1: 'sweeps: {x: {}': the braces are not closed with }
"""


@pytest.mark.parametrize(
    ("content", "said"),
    [
        *((text.replace("|", "\n").replace("SWEEP", SWEEP), said) for text, said in cases(FILES)),
        *((f"{SWEEP}training.epochs: {one}", f"{one} is not valid") for one in NO_YAML),
        ("", ": the file is empty: it must be the keys device, devices, defaults, on_cpu, sweeps"),
        (BOMB, "there are more than 250000 keys and values"),
        (DEEP, "there are more than 24 levels"),
        *((part * 400, "there are more than 24 levels") for part in ("[", "{a: ", "- ")),
        ("[" * 200_000, "there are more than 24 levels"),
        (f"{SWEEP}training.epochs: {'9' * 5000}", "... (5000 characters) is not valid"),
        ("sweeps:\n\tx: {}", ", line 2: '\\tx: {}': there is a tab: lines are indented with spaces"),
        ("sweeps: {caf\u00e9: {}}".encode("latin-1"), ", line 1: not text in UTF-8: save the file as UTF-8"),
        ("sweeps: {x: {}}".encode("utf-16"), ", line 1: not text in UTF-8"),
        ("sweeps: {x: {}}".encode("utf-16-le"), "control characters are not allowed"),
        (b"\x7fELF\x02\x01\x01\x00\x00\x00\xff\xfe", "not text in UTF-8"),
        (b"sweeps: {x\x00: {}}", "control characters are not allowed"),
        (b"\x00" * 1000, "control characters are not allowed"),
        (b"#" * (1 << 20) + b"\n", ": cannot be read: it has more than 1048576 bytes"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_a_file_that_is_no_grid_is_refused(tmp_path, content, said):
    assert said in refusal(written(tmp_path, content))


def test_a_grid_that_is_no_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    assert "it is a folder, not a file" in refusal(tmp_path)
    assert "it is a pipe, not a file" in refusal(tmp_path / "pipe")
    assert "it is a device, not a file" in refusal(tmp_path / "link")
    assert "No such file" in refusal(tmp_path / "none")
    for place in ("", "."):
        with pytest.raises(ConfigError, match="grid is empty: it must be the path of a grid file"):
            sweeps.read(type(tmp_path)(place), CPU)
    with pytest.raises(ConfigError, match=r"grid\.yaml: device is 7: it must be"):
        plans.read(written(tmp_path, "sweeps: {x: {}}\ndevice: 7"), {})


# ---- a file that is not YAML: the line that is probably wrong is shown


PARSER = ("did not find", "found", "expected", "token", "block", "mapping", "flow", "context", "stream")
PROBLEMS = r"""
    strategy: graph|   device: cpu => 4 '   device: cpu': the indentation matches no line above
    strategy: graph| device: cpu => 4 ' device: cpu': the indentation matches no line above
    union:|      - a: 1|     - b: 2 => 5 '     - b: 2': the indentation matches no line above
    strategy: graph|      device: cpu => 4 it is indented more than the key above, which has a value
    strategy graph|    device: cpu => 4 the line above has no colon followed by a space
    strategy:graph|    device: cpu => 4 the line above has no colon followed by a space
    device: cpu|    strategy graph => 4 '    strategy graph': a colon, or a dash, is missing
    strategy:|      - graph|      pool|      - a => 5 '      pool': a colon, or a dash, is missing
    union:|      - a: 1|      b: 2 => 5 a list, of which each element begins with a dash
    strategy: - graph => 3 write a list after its key in brackets, [a, b]; with dashes, each
    TABstrategy: graph => 3 '\tstrategy: graph': there is a tab: lines are indented with spaces
    strategy: pool|TABkernel: naive => 4 '\tkernel: naive': there is a tab: lines are
    a key: b: c => 3 write a value that has a colon and a space in quotes
    a : b : c => 3 write a value that has a colon and a space in quotes
    strategy: [graph, pool|    device: cpu| => 3 pool': the list is not closed with ], or a comma
    strategy: [graph,, pool] => 3 a value or a closing bracket is missing, or there is a comma
    strategy: [graph]] => 3 ']' follows the end of a value: quote the whole value if it is
    strategy: 'graph' pool => 3 'pool' follows the end of a value
    strategy: 'graph|    device: cpu| => 3 a quote is not closed
    dataset.path: @file => 3 write a value that begins with @ in quotes
    dataset.path: * => 3 write a value that begins with * in quotes
    dataset.path: a: b => 3 write a value that has a colon and a space in quotes
    dataset.path: "C:\qdata" => 3 in double quotes a backslash has a meaning: use single quotes
    {strategy: graph||| => 3 the braces are not closed with }, or a comma is missing
"""


@pytest.mark.parametrize(("text", "place"), cases(PROBLEMS))
def test_the_line_is_shown_with_what_would_be_right(text, place):
    """A bar stands for the end of a line."""
    line, _, said = place.partition(" ")
    text = f"    {text}".replace("|", "\n").replace("    TAB", "\t").replace("TAB", "\t")
    with pytest.raises(ConfigError) as refused:
        read_text("sweeps:\n  x:\n" + text, "bad.yaml")
    message = str(refused.value)
    assert message.startswith(f"bad.yaml, line {line}: ") and said in message and "\n" not in message
    assert not any(word in message for word in PARSER)
    assert isinstance(refused.value.__cause__, yaml.YAMLError)


def test_what_has_no_words_of_its_own_still_has_its_line():
    with pytest.raises(
        ConfigError, match=r"bad\.yaml, line 1: '%YAML 3\.0': it cannot be read as YAML: found"
    ):
        read_text("%YAML 3.0\n---\na: 1", "bad.yaml")


# ---- what the author of a new choice forgot


CHANGED = r"""
    strategy/pinned _target_= => _target_ is missing: it must name the strategy's class,
    strategy/pinned _target_=Pinned => _target_ is 'Pinned': it must name the strategy's
    strategy/pinned _target_=snn.strategies.pined.Pinned => snn/strategies/pined.py does not exist
    strategy/pinned _target_=snn.strategies.cpu.Blass => snn/strategies/cpu.py has no Blass (did you
    strategy/pinned name=reference => name is 'reference': it must be pinned, the name of the file
    strategy/pinned name=pinedd => name is 'pinedd': it must be pinned, the name of the file
    strategy/pinned name= => name is missing: it must be pinned, the name of the file
    dataset/small _target_= => it must name the function that makes the data, such as snn.data
    kernel/tiled work= => work is missing: a kernel has name, source, block, work, fused, pretransposed, prec
    kernel/tiled sorce=1 => 'sorce' is not a key of a kernel (did you mean source?): one of name,
    kernel/tiled source=kernels/tild.cu => source is 'kernels/tild.cu': it must be a file, such as
    kernel/tiled fused=no => fused is 'no': it must be true or false
    kernel/tiled precisions=fp64 => precisions is 'fp64': it must be a list of one or more
    protocol/brief round=1 => 'round' is not a key of a protocol (did you mean rounds?): one of rounds, runs
    protocol/brief runs= => runs is missing: a protocol has rounds, runs, min_runs
    precision/bf16 bits=16 => 'bits' is not a key of a precision: one of name
    network/mlp init= => init is missing: a network has hidden, bias, activation
    network/cnn loss= => loss is missing: a network has layers, loss, init, update_order
"""


@pytest.mark.parametrize(("changed", "said"), cases(CHANGED))
def test_what_is_wrong_in_a_choices_file_is_named(tmp_path, monkeypatch, changed, said):
    """Its author forgot something, or copied another's file. A key without a value is left out."""
    (group, choice), (key, value) = (
        part.split(sign) for part, sign in zip(changed.split(), "/=", strict=True)
    )
    read = groups.load
    content = {k: v for k, v in (read(group, choice) | {key: value}).items() if k != key or value}
    monkeypatch.setattr(
        groups, "load", lambda g, name: dict(content) if (g, name) == (group, choice) else read(g, name)
    )
    for refuse in (
        lambda: composed([f"{group}={choice}", "device=cpu"]),
        lambda: sweeps_of(tmp_path, {"mine": {group: choice}}),
    ):
        with pytest.raises(ConfigError) as refused:
            refuse()
        assert f"config/{group}/{choice}.yaml: " in str(refused.value)
        assert said in str(refused.value)


def test_a_choices_file_that_lacks_two_keys_is_told_both():
    content = {key: 1 for key in groups.load("protocol", "paper") if key not in ("runs", "rounds")}
    with pytest.raises(ConfigError, match="rounds, runs are missing: a protocol has rounds, runs, min_runs"):
        choices.check_file("protocol", "paper", content)


@pytest.mark.parametrize(("text", "given"), [("", "empty"), ("- a", "['a']"), ("a", "'a'")])
def test_a_choices_file_without_keys_is_named(tmp_path, monkeypatch, text, given):
    (tmp_path / "dataset").mkdir()
    (tmp_path / "dataset/mine.yaml").write_text(text)
    monkeypatch.setattr(groups, "CONFIG", tmp_path)
    with pytest.raises(ConfigError, match="must be keys with values, as KEY: VALUE") as refused:
        groups._file.__wrapped__("dataset", "mine")
    assert str(refused.value).startswith(f"config/dataset/mine.yaml is {given}: ")


@pytest.mark.parametrize(
    ("group", "file"),
    [
        ("strategy", "snn/strategies/family.py"),
        ("dataset", "snn/datasets/my_own.py"),
        ("kernel", "kernels/my_own.cu"),
    ],
)
def test_code_without_a_choices_file_is_named(tmp_path, monkeypatch, group, file):
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text("class MyOwner(Host):\n    pass\n\n\nclass MyOwn(Host):\n    pass\n")
    for folder in ("ROOT", "PACKAGES"):
        monkeypatch.setattr(project, folder, tmp_path)
    right = f"{file} exists, but a choice needs a file, config/{group}/my_own.yaml"
    with pytest.raises(ConfigError, match=re.escape(right)):
        choices.check_choice(group, "my_own")
    for wrong in ("my_ow", "none", "My_own"):
        assert "is there" not in choices.hint(group, wrong)
    with pytest.raises(ConfigError, match=re.escape(right)):
        sweeps_of(tmp_path, {"mine": {group: [groups.default_choices()[group], "my_own"]}})


def test_a_choice_that_is_nearly_right_is_suggested():
    with pytest.raises(ConfigError, match="did you mean reference"):
        composed(["strategy=refrence"])
