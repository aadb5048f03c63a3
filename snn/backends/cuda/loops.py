"""Graphs that repeat themselves by a conditional node, which CuPy does not offer."""

import ctypes
from functools import cache
from typing import Any

import cupy
from cupy.cuda import runtime

from snn.backends.cuda.cooperative import check, driver
from snn.errors import Unsupported

LEAST_DRIVER = 12040
"""The first driver version with conditional nodes that loop."""

_CONDITIONAL, _WHILE = 13, 1  # CUgraphNodeType, CUgraphConditionalNodeType
_ASSIGN_DEFAULT = 1  # CU_GRAPH_COND_ASSIGN_DEFAULT

_COUNT_DOWN = b"""
.version 6.0
.target sm_70
.address_size 64

.extern .func cudaGraphSetConditional(.param .b64 handle, .param .b32 value);

// counter[0] -= 1; the graph is repeated until it is 0, and then it becomes counter[1] for the next launch.
.visible .entry count_down(.param .u64 handle, .param .u64 counter)
{
    .reg .pred %more;
    .reg .b32 %left, %all, %again;
    .reg .b64 %handle, %counter;

    ld.param.u64 %handle, [handle];
    ld.param.u64 %counter, [counter];
    cvta.to.global.u64 %counter, %counter;
    ld.global.u32 %left, [%counter];
    ld.global.u32 %all, [%counter+4];
    sub.u32 %left, %left, 1;
    setp.ne.u32 %more, %left, 0;
    selp.u32 %again, 1, 0, %more;
    selp.u32 %left, %left, %all, %more;
    st.global.u32 [%counter], %left;
    {
    .param .b64 of_graph;
    .param .b32 to;
    st.param.b64 [of_graph], %handle;
    st.param.b32 [to], %again;
    call.uni cudaGraphSetConditional, (of_graph, to);
    }
    ret;
}
"""
"""In PTX, because NVRTC knows no cudaGraphSetConditional: the driver links it when it compiles this."""


class _Conditional(ctypes.Structure):
    """CUDA_CONDITIONAL_NODE_PARAMS."""

    _fields_ = (
        ("handle", ctypes.c_uint64),
        ("kind", ctypes.c_int),
        ("size", ctypes.c_uint),
        ("bodies", ctypes.POINTER(ctypes.c_void_p)),
        ("context", ctypes.c_void_p),
    )


class _Node(ctypes.Structure):
    """CUgraphNodeParams."""

    _fields_ = (
        ("kind", ctypes.c_int),
        ("reserved", ctypes.c_int * 3),
        ("conditional", _Conditional),
        ("rest", ctypes.c_char * (8 * 29 - ctypes.sizeof(_Conditional))),
        ("last", ctypes.c_longlong),
    )


class _Kernel(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("arguments", ctypes.c_void_p),
        ("extra", ctypes.c_void_p),
    )


def repeated(graph: int, counter: int) -> int:
    """A graph, not instantiated, that repeats ``graph`` as often as two uint32 in device memory say.

    The first one is how often it is repeated by the next launch, the second by each launch after it. Raises
    Unsupported.
    """
    version = runtime.driverGetVersion()
    if version < LEAST_DRIVER:
        raise Unsupported(
            "graphs repeat themselves from driver version 12.4 on, and this driver's is "
            f"{version // 1000}.{version % 1000 // 10}"
        )
    whole, context, handle = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
    node, epoch, address, none = (
        ctypes.c_void_p(),
        ctypes.c_void_p(),
        ctypes.c_void_p(counter),
        ctypes.c_size_t(0),
    )
    _call("cuGraphCreate", ctypes.byref(whole), 0)
    try:
        _call("cuCtxGetCurrent", ctypes.byref(context))
        _call("cuGraphConditionalHandleCreate", ctypes.byref(handle), whole, context, 1, _ASSIGN_DEFAULT)
        loop = _Node(kind=_CONDITIONAL)
        loop.conditional.handle, loop.conditional.kind, loop.conditional.size = handle.value, _WHILE, 1
        loop.conditional.context = context.value
        _call("cuGraphAddNode", ctypes.byref(node), whole, None, none, ctypes.byref(loop))
        body = ctypes.c_void_p(loop.conditional.bodies[0])
        _call("cuGraphAddChildGraphNode", ctypes.byref(epoch), body, None, none, ctypes.c_void_p(graph))
        arguments = (ctypes.c_void_p * 2)(ctypes.addressof(handle), ctypes.addressof(address))
        kernel = _Kernel(function=_count_down().ptr, arguments=ctypes.addressof(arguments))
        kernel.grid[:], kernel.block[:] = [1, 1, 1], [1, 1, 1]
        after = ctypes.byref(epoch), ctypes.c_size_t(1)
        _call("cuGraphAddKernelNode", ctypes.byref(node), body, *after, ctypes.byref(kernel))
    except BaseException:
        driver.cuGraphDestroy(whole)
        raise
    assert whole.value is not None
    return whole.value


def _call(name: str, *arguments: Any) -> None:
    check(getattr(driver, name)(*arguments), name)


@cache
def _count_down() -> Any:
    module = cupy.cuda.function.Module()
    module.load(_COUNT_DOWN)
    return module.get_function("count_down")
