"""Certifiers to serve, servers to ask, and clients that misbehave."""

import contextlib
import io
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import uvicorn
from fastapi.testclient import TestClient
from numpy.typing import NDArray
from PIL import Image
from torch import nn

import rrise
from rrise.certifiers.certificates import Certificates
from rrise.certifiers.certifier import Certifier
from rrise.certifiers.surrogate import SurrogateCertifier

PNG, JPEG, NPY, JSON = "image/png", "image/jpeg", "application/x-npy", "application/json"
SIZE = 8
SIGMA = 0.25


def side_classifier(scale: float) -> nn.Module:
    """Answer which of three thirds of a grey image is brightest; logits are mean brightness times `scale`."""
    module = nn.Sequential(nn.Flatten(), nn.Linear(SIZE * SIZE, 3))
    columns = torch.arange(SIZE).repeat(SIZE)
    weight = torch.stack([(columns * 3 // SIZE == third).float() for third in range(3)])
    with torch.no_grad():
        module[1].weight.copy_(weight / weight.sum(dim=1, keepdim=True) * scale)  # type: ignore[union-attr, operator]
        module[1].bias.zero_()  # type: ignore[union-attr, operator]
    return module.eval()


def some_images(count: int, seed: int = 0) -> NDArray[np.float32]:
    """Grey images with 256 levels, one third of each a little brighter."""
    random = np.random.default_rng(seed)
    values = random.random((count, 1, SIZE, SIZE)) * 0.6
    brighter = np.arange(SIZE) * 3 // SIZE == random.integers(0, 3, count)[:, None]
    values += brighter[:, None, None, :] * random.uniform(0, 0.4, (count, 1, 1, 1))
    return (np.round(values * 255) / 255).astype(np.float32)


def make_image_certifier() -> tuple[SurrogateCertifier, nn.Module]:
    """A small certifier for images, and its base classifier; it certifies some and abstains on others."""
    base, surrogate, images = side_classifier(6.0), side_classifier(20.0), some_images(200)
    return rrise.calibrate(
        surrogate,
        images,
        drawn_votes(base, images, 300),
        sigma=SIGMA,
        failure=0.1,
        base=base,
        class_names=("left", "middle", "right"),
    ), base


def drawn_votes(base: nn.Module, images: NDArray[np.float32], n: int) -> NDArray[np.int64]:
    """Count the answers for `n` noisy copies of each image, simply."""
    random = np.random.default_rng(1)
    counts = np.zeros((len(images), 3), dtype=np.int64)
    for row, image in enumerate(images):
        noisy = np.clip(image + SIGMA * random.standard_normal((n, *image.shape)), 0, 1).astype(np.float32)
        with torch.no_grad():
            counts[row] = np.bincount(base(torch.from_numpy(noisy)).argmax(dim=1), minlength=3)
    return counts


def png(image: NDArray[np.float32], kind: str = "PNG") -> bytes:
    """An image `[1, height, width]` as a file."""
    stream = io.BytesIO()
    Image.fromarray(np.round(image[0] * 255).astype(np.uint8)).save(stream, kind)
    return stream.getvalue()


def npy(array: NDArray[Any]) -> bytes:
    """An array as a .npy file."""
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


class Altered:
    """A certifier that does something else before it certifies."""

    def __init__(self, certifier: Certifier, before: Any) -> None:
        self.input_shape, self.smoothing = certifier.input_shape, certifier.smoothing
        self.class_names, self.guarantee = certifier.class_names, certifier.guarantee
        self.runtime = certifier.runtime
        self._certifier, self._before = certifier, before

    def certify(self, inputs: NDArray[np.float32]) -> Certificates:
        self._before(inputs)
        return self._certifier.certify(inputs)


@contextlib.contextmanager
def served(app: Any) -> Iterator[str]:
    """Serve an application in a thread, and give its address."""
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listening:
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            until(lambda: server.started)
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def until(condition: Any, seconds: float = 20.0) -> None:
    """Wait for something to become true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


def ask(client: TestClient, content: bytes, kind: str, path: str = "/v1/certify") -> Any:
    """Post a body of some kind."""
    return client.post(path, content=content, headers={"content-type": kind})


def upload(page: Any, name: str, content: bytes) -> None:
    """Choose a file on the page."""
    page.locator("#file").set_input_files({"name": name, "mimeType": "", "buffer": content})
