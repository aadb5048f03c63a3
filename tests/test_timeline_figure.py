"""The timeline of calls: its lanes, and the bytes that are held meanwhile."""

import numpy as np
import pandas as pd
from figure_layout import faults, said_in

from snn.figures import timeline


def test_a_timeline_shows_pinned_memory_also_where_there_is_more_of_the_devices():
    calls = pd.DataFrame({"call": ["host_alloc", "malloc", "synchronize"], "strategy": "pinned"})
    calls = calls.assign(start_us=[0.0, 1.0, 2.0], end_us=[1.0, 2.0, 3.0], device_bytes=[0, 8192, 8192])
    calls = calls.assign(device_start_us=np.nan, device_end_us=np.nan, stream=np.nan)
    calls = calls.assign(pinned_bytes=[4096, 4096, 2048], device="NVIDIA H200", backend="cuda")
    drawn = timeline.draw(calls, "Tesla T4")
    assert faults(drawn) == []
    (area,), (line,) = drawn.axes[1].collections, drawn.axes[1].lines
    assert list(line.get_ydata()) == [4, 4, 2]
    assert line.get_zorder() > area.get_zorder() and line.get_color() not in area.get_facecolor()
    assert "neither on top of the other" in said_in(drawn)
    looks = {
        text.get_text(): one
        for text, one in zip(drawn.legends[0].get_texts(), drawn.legends[0].legend_handles, strict=True)
    }
    waits, device = (
        np.array(looks[name].get_facecolor()) for name in ("other waits for the device", "device memory")
    )
    assert np.abs(waits - device).max() > 0.4
    without = timeline.draw(calls.assign(pinned_bytes=0), "Tesla T4")
    assert not without.axes[1].lines and "pinned memory" not in said_in(without)
