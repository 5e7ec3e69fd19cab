"""Load an HTTP service with one POST request: by wrk where it is installed, else by an asyncio client.

Either keeps its connections alive, and sends a connection's next request when it has the answer.
"""

import asyncio
import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np

WRK = shutil.which("wrk")
CLIENT = "wrk" if WRK else "an asyncio client"
_SCRIPT = """
local file = io.open(%s, "rb")
wrk.method, wrk.body = "POST", file:read("*a")
wrk.headers["Content-Type"] = "application/x-npy"
function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format('{"requests": %%d, "microseconds": %%d, "p50": %%f, "p99": %%f, "errors": %%d}',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
    e.connect + e.read + e.write + e.status + e.timeout))
end
"""


def load(port: int, path: str, body: bytes, connections: int, duration: float) -> dict[str, float]:
    """Keep so many connections busy for a while; latencies in milliseconds."""
    found = (by_wrk if WRK else by_asyncio)(port, path, body, connections, duration)
    requests, seconds, p50, p99, errors = found
    return {
        "requests_per_second": requests / seconds,
        "p50_ms": 1000 * p50,
        "p99_ms": 1000 * p99,
        "error_share": errors / max(requests, 1),
    }


def by_wrk(
    port: int, path: str, body: bytes, connections: int, duration: float
) -> tuple[float, float, float, float, float]:
    """Return requests, seconds, median and 99th percentile of the latency in seconds, and errors."""
    with tempfile.TemporaryDirectory() as folder:
        content, script = Path(folder) / "body", Path(folder) / "post.lua"
        content.write_bytes(body)
        script.write_text(_SCRIPT % json.dumps(str(content)))
        how = ["-t1", f"-c{connections}", f"-d{max(1, round(duration))}s", "--timeout", "30s", "-s", script]
        command = [str(WRK), *map(str, how), f"http://127.0.0.1:{port}{path}"]
        printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = json.loads(printed[printed.index("{") :])
    seconds = [found[name] / 1e6 for name in ("microseconds", "p50", "p99")]
    return found["requests"], seconds[0], seconds[1], seconds[2], found["errors"]


def by_asyncio(
    port: int, path: str, body: bytes, connections: int, duration: float
) -> tuple[float, float, float, float, float]:
    """Return the same, measured by a client in this process."""
    length = f"content-length: {len(body)}"
    head = [f"POST {path} HTTP/1.1", "host: x", "content-type: application/x-npy", length, "", ""]
    request = "\r\n".join(head).encode() + body
    seconds: list[float] = []
    errors: list[int] = []

    async def all_clients() -> float:
        start = time.perf_counter()
        clients = (_client(port, request, start + duration, seconds, errors) for _ in range(connections))
        await asyncio.gather(*clients)
        return time.perf_counter() - start

    elapsed = asyncio.run(all_clients())
    p50, p99 = np.percentile(seconds, [50, 99])
    return len(seconds), elapsed, float(p50), float(p99), len(errors)


async def _client(port: int, request: bytes, end: float, seconds: list[float], errors: list[int]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while time.perf_counter() < end:
        start = time.perf_counter()
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
        seconds.append(time.perf_counter() - start)
        if not head.startswith(b"HTTP/1.1 200"):
            errors.append(int(head[9:12]))
    writer.close()
    await writer.wait_closed()
