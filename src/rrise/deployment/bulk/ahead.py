"""Reading ahead: the next chunks are read and decoded by threads while one is being certified."""

import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from rrise.deployment.bulk.inputs import Chunk, Reader

_WAITING = 8
"""Threads that decode where files are far away: most of them wait."""


def read_ahead(reader: Reader, spans: Iterable[tuple[int, int]], *, ahead: int = 3) -> Iterator[Chunk]:
    """Yield the chunks from `start` to `stop` for each span, in order; at most `ahead` wait."""
    decoders = min(_WAITING, max(2, os.cpu_count() or 1))
    waiting: deque[Future[Future[Chunk]]] = deque()
    with ThreadPoolExecutor(1) as fetching, ThreadPoolExecutor(decoders) as decoding:

        def begin(start: int, stop: int) -> Future[Chunk]:
            return decoding.submit(reader.decode, start, reader.fetch(start, stop))

        try:
            for span in spans:
                waiting.append(fetching.submit(begin, *span))
                if len(waiting) > ahead:
                    yield waiting.popleft().result().result()
            while waiting:
                yield waiting.popleft().result().result()
        finally:
            fetching.shutdown(cancel_futures=True)
            decoding.shutdown(cancel_futures=True)
