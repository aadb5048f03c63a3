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


def test_parts_of_a_lane_are_told_apart_by_their_places():
    calls = ["malloc", "host_alloc", "stream_create", "copy_in", "copy_out", "kernel", "synchronize"]
    table = pd.DataFrame({"call": calls, "strategy": "streams", "device": "NVIDIA H200", "backend": "cuda"})
    times = np.arange(float(len(calls)))
    table = table.assign(start_us=times, end_us=times + 0.5, device_start_us=times, device_end_us=times + 0.5)
    table["stream"] = [np.nan] * 3 + [0.0] * 3 + [np.nan]
    table = table.assign(device_bytes=0, pinned_bytes=0)
    drawn = timeline.draw(table, "Tesla T4")
    assert faults(drawn) == []
    host, device = [], []
    for boxes in drawn.axes[0].collections:
        for path in boxes.get_paths():
            low, high = path.get_extents().intervaly
            lane = round((low + high) / 2)
            (device if lane else host).append((round(low - lane, 3), round(high - lane, 3)))
    assert len(set(host)) == len(host) == len(calls) and len(set(device)) == len(device) == 3
    assert all(-0.38 <= low < high <= 0.38 for low, high in host + device)
