"""The service as a process: killed, ended, and asked by clients that misbehave."""

import concurrent.futures
import contextlib
import os
import re
import resource
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from torch import nn

from rrise.certifiers.held_out import HELD_OUT
from rrise.certifiers.surrogate import SurrogateCertifier
from rrise.cli.serve import serve
from rrise.deployment.service.app import create_app
from rrise.deployment.service.settings import ServiceSettings
from rrise.errors import FolderError, SettingError

from .serving import NPY, Altered, npy, served, some_images, until

IMAGES = some_images(8, seed=5)
BODY: Any = {"content": npy(IMAGES[0]), "headers": {"content-type": NPY}}


@pytest.fixture(scope="module")
def folder(
    image_certifier: tuple[SurrogateCertifier, nn.Module], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    folder = tmp_path_factory.mktemp("served") / "certifier"
    image_certifier[0].save(folder)
    return folder


@contextlib.contextmanager
def process(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run the service and give its process and address."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [sys.executable, "-m", "rrise", "serve", str(folder), "--port", "0", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    ) as started:
        try:
            assert started.stdout is not None
            said = iter(started.stdout.readline, "")
            found = next((match for line in said if (match := re.search(r"http://\S+", line))), None)
            assert found, "it ended before it served"
            yield started, found.group()
        finally:
            started.kill()


@pytest.mark.slow
def test_killed_under_load_it_starts_again_and_answers_the_same(
    folder: Path, images_certifier: SurrogateCertifier
) -> None:
    expected = images_certifier(IMAGES[:1]).records(images_certifier.class_names)[0]["radius"]

    def ask(address: str) -> float | None:
        try:
            answer = httpx.post(f"{address}/v1/certify", timeout=20, **BODY)
        except httpx.TransportError:
            return None
        assert answer.status_code == 200
        radius: float = answer.json()["certificates"][0]["radius"]
        return radius

    with process(folder) as (running, address):
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = [pool.submit(ask, address) for _ in range(60)]
            until(lambda: sum(answer.done() for answer in answers) > 15)
            running.kill()
            found = [answer.result() for answer in answers]
        assert set(found) == {expected, None}
        port = address.rsplit(":", 1)[1]
    with process(folder, "--port", port) as (_, again):
        assert again == address
        assert ask(address) == expected


def test_told_to_end_it_answers_what_it_accepted(folder: Path) -> None:
    many: Any = {"content": npy(some_images(256)), "headers": {"content-type": NPY}, "timeout": 30}
    with process(folder, "--max-batch", "1", "--queue", "10000", "--timeout", "30") as (running, address):
        metrics = f"{address}/metrics"
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            answers = [pool.submit(httpx.post, f"{address}/v1/certify", **many) for _ in range(12)]
            until(lambda: waiting_inputs(httpx.get(metrics).text) > 500)
            accepted = waiting_inputs(httpx.get(metrics).text) / 256
            running.send_signal(signal.SIGTERM)
            ended = [answer.exception() or answer.result().status_code for answer in answers]
        assert ended.count(200) >= max(2, accepted)
        assert all(found == 200 or isinstance(found, httpx.TransportError) for found in ended)
        assert running.wait(20) == 0
        with pytest.raises(httpx.TransportError):
            httpx.get(metrics)


def waiting_inputs(metrics: str) -> float:
    return float(re.search(r"^rrise_queue_inputs (.*)$", metrics, re.MULTILINE).group(1))  # type: ignore[union-attr]


def test_a_certifier_folder_with_one_changed_byte_is_refused_and_the_file_named(
    folder: Path, tmp_path: Path
) -> None:
    for file in sorted(set(folder.iterdir()) - {folder / HELD_OUT}):  # which a service does not read
        copy = tmp_path / file.name
        shutil.copytree(folder, copy)
        content = bytearray((copy / file.name).read_bytes())
        content[len(content) // 2] ^= 1
        (copy / file.name).write_bytes(content)
        with pytest.raises(FolderError, match=re.escape(f"{file.name}/{file.name}")):
            serve(copy, port=0)


@pytest.mark.parametrize("how", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_either_signal_leaves_one_whole_database(folder: Path, tmp_path: Path, how: signal.Signals) -> None:
    database = tmp_path / "monitor.db"
    with process(folder, "--monitor", str(database)) as (running, address):
        assert httpx.post(f"{address}/v1/certify", **BODY).status_code == 200
        running.send_signal(how)
        assert running.wait(20) == 0
    assert not database.with_name("monitor.db-wal").exists()
    copy = shutil.copy(database, tmp_path / "copy.db")
    with contextlib.closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("SELECT seen FROM tests WHERE name = 'label-free'").fetchone() == (1,)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"on_alarm": "abstain"}, "--on-alarm has no effect without --monitor"),
        ({"audit": 0.2}, "--audit has no effect without --monitor"),
        ({"keep_inputs": True}, "--keep-inputs has no effect without --monitor"),
        ({"max_votes": 5}, "--max-votes has no effect without --base"),
        ({"fallback_votes": 5}, "--fallback-votes has no effect without --base"),
        ({"weights": "x"}, "--weights has no effect without --base"),
        ({"port": 80800}, "cannot listen on 127.0.0.1, port 80800"),
    ],
)
def test_options_that_would_do_nothing_are_refused(
    folder: Path, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(SettingError, match=sentence):
        serve(folder, **{"port": 0, **options})


def test_an_address_that_is_taken_is_named(folder: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(SettingError, match=r"cannot listen on 127.0.0.1, port \d+ \(Address already in use\)"),
    ):
        serve(folder, port=taken.getsockname()[1])


def test_a_token_file_must_hold_a_token(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("short\n")
    with pytest.raises(SettingError, match="expected a token of at least 16"):
        serve(folder, token_file=tmp_path / "token")


def connect(address: str) -> socket.socket:
    host, port = address.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=20)


def head(length: int) -> bytes:
    lines = (
        "POST /v1/certify HTTP/1.1",
        "host: x",
        f"content-type: {NPY}",
        f"content-length: {length}",
        "",
        "",
    )
    return "\r\n".join(lines).encode()


def test_a_slow_client_gets_408_and_holds_nobody_up(images_certifier: SurrogateCertifier) -> None:
    app = create_app(images_certifier, settings=ServiceSettings(timeout=3.0))
    content = npy(IMAGES[0])
    with served(app) as address, connect(address) as slow:
        slow.sendall(head(len(content)) + content[:50])
        start = time.monotonic()
        for _ in range(5):
            assert httpx.post(f"{address}/v1/certify", **BODY).status_code == 200
        assert time.monotonic() - start < 3.0
        answer = slow.recv(10_000).decode()
        assert answer.startswith("HTTP/1.1 408")
        until(lambda: app.state.service.bodies.held == 0)


def test_clients_that_disconnect_leave_nothing_behind(images_certifier: SurrogateCertifier) -> None:
    app = create_app(images_certifier)
    content = npy(IMAGES[0])
    with served(app) as address:
        for sent in (head(len(content)), head(len(content)) + content[:50], head(len(content)) + content):
            for _ in range(10):
                with connect(address) as leaving:
                    leaving.sendall(sent)
                    leaving.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        service = app.state.service
        until(lambda: service.bodies.held == 0 and service.waiting == 0)
        assert httpx.post(f"{address}/v1/certify", **BODY).status_code == 200
        assert 'status="500"' not in httpx.get(f"{address}/metrics").text


def test_it_answers_beside_a_thousand_idle_connections(images_certifier: SurrogateCertifier) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2100:
        pytest.skip(f"this system allows {hard} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        app = create_app(images_certifier)
        with served(app) as address, contextlib.ExitStack() as open_connections:
            for _ in range(1000):
                open_connections.enter_context(connect(address))
            start = time.monotonic()
            for _ in range(20):
                assert httpx.post(f"{address}/v1/certify", timeout=20, **BODY).status_code == 200
            assert time.monotonic() - start < 10
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_full_queue_is_a_503_and_a_late_answer_a_504(images_certifier: SurrogateCertifier) -> None:
    def slow(_: Any) -> None:
        time.sleep(1.5)

    settings = ServiceSettings(queue=2, max_batch=1, max_inputs=2, timeout=1.0)
    app = create_app(Altered(images_certifier, slow), settings=settings)
    with served(app) as address, concurrent.futures.ThreadPoolExecutor(8) as pool:
        post = [pool.submit(httpx.post, f"{address}/v1/certify", timeout=20, **BODY) for _ in range(8)]
        answers = [each.result() for each in post]
    codes = [answer.status_code for answer in answers]
    assert set(codes) == {503, 504}
    assert codes.count(503) >= 5
    assert all(answer.headers["retry-after"] == "1" for answer in answers if answer.status_code == 503)
    late = next(answer for answer in answers if answer.status_code == 504)
    assert "no answer within 1 seconds" in late.json()["error"]


def test_bodies_of_many_requests_together_are_limited(images_certifier: SurrogateCertifier) -> None:
    settings = ServiceSettings(max_body=1000, max_held=1500)
    app = create_app(images_certifier, settings=settings)
    with served(app) as address, connect(address) as first, connect(address) as second:
        first.sendall(head(900) + b"x" * 899)
        until(lambda: app.state.service.bodies.held == 899)
        second.sendall(head(900) + b"x" * 899)
        assert second.recv(10_000).startswith(b"HTTP/1.1 503")
        until(lambda: app.state.service.bodies.held == 899)
    until(lambda: app.state.service.bodies.held == 0)


def test_a_batch_of_many_clients_gets_everyone_his_own_answer(images_certifier: SurrogateCertifier) -> None:
    many = some_images(40, seed=11)
    expected = images_certifier(many)
    with served(create_app(images_certifier)) as address, httpx.Client() as client:

        def radius(index: int) -> float:
            content = npy(many[index])
            answer = client.post(
                f"{address}/v1/certify", content=content, headers={"content-type": NPY}, timeout=20
            )
            found: float = answer.json()["certificates"][0]["radius"]
            return found

        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            found = list(pool.map(radius, range(40)))
    assert np.allclose(found, expected.radius, atol=2e-6)
