"""The work of ``snn.backends.ops`` in NumPy: what the CPU backend does, and the oracle of the kernels.

Every function takes flat float32 arrays, each at least as long as its operand, and numbers.
"""

# ruff: noqa: F403
from snn.backends.cpu.ops.convolutions import *
from snn.backends.cpu.ops.elementwise import *
from snn.backends.cpu.ops.products import *
from snn.backends.cpu.ops.published import *
from snn.backends.cpu.ops.trainings import *
