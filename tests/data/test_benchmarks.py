"""The benchmark datasets in miniature: every layout, every place, and every way to be wrong."""

import gzip
import hashlib
import pickle
import shutil
import socket
import tarfile
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import pytest
from PIL import Image

from rrise.data import benchmarks
from rrise.data.benchmarks import BENCHMARKS, enlarged, load_benchmark
from rrise.data.catalogue import load_dataset
from rrise.data.layouts import import_datasets, read_idx
from tests.data.miniatures import RANDOM, arrays, small, write_cifar, write_idx, write_tiny_imagenet

DEBIAN = Path("/usr/share/datasets/fashion-mnist")


@pytest.fixture(autouse=True)
def nothing_around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("RRISE_DATA", raising=False)
    monkeypatch.setattr(benchmarks, "_INSTALLED", tmp_path / "installed")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, str]]:
    """A web server of this machine: its folder and its address."""
    folder = tmp_path / "server"
    folder.mkdir()
    handler = partial(QuietHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        thread = Thread(target=running.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()
        thread.join()


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("folder", ["FashionMNIST/raw", "fashion-mnist"])
def test_fashion_mnist_from_its_own_files(tmp_path: Path, folder: str, packed: bool) -> None:
    content = arrays()
    write_idx(tmp_path / folder, content, packed=packed)
    data = load_benchmark(small("fashion-mnist"), tmp_path)
    assert data.source == str(tmp_path / folder)
    assert data.train.images.shape == (40, 3, 32, 32)
    assert data.class_names[9] == "Ankle boot"
    np.testing.assert_array_equal(data.test.labels, content["y_test"])
    np.testing.assert_array_equal(data.train.images, enlarged(content["x_train"], (3, 32, 32)))


def test_enlarging_is_bilinear_between_pixel_centres() -> None:
    images = RANDOM.integers(0, 256, (3, 28, 28), dtype=np.uint8)
    centres = np.clip((np.arange(32) + 0.5) * 28 / 32 - 0.5, 0, 27)
    low = np.minimum(np.floor(centres).astype(int), 26)
    weights = np.zeros((32, 28))
    weights[np.arange(32), low] = 1 - (centres - low)
    weights[np.arange(32), low + 1] = centres - low
    expected = np.round(weights @ images.astype(np.float64) @ weights.T)
    result = enlarged(images, (3, 32, 32))
    assert result.dtype == np.uint8
    for channel in range(3):
        np.testing.assert_array_equal(result[:, channel], expected)
    pillow = np.asarray(Image.fromarray(images[0]).resize((32, 32), Image.Resampling.BILINEAR))
    assert np.abs(result[0, 0].astype(int) - pillow).max() <= 1  # Pillow rounds after each axis
    np.testing.assert_array_equal(enlarged(images[..., None], (3, 32, 32)), result)


@pytest.mark.parametrize("shape", [(28, 28), (28, 28, 1), (1, 28, 28), (32, 32, 3)])
def test_fashion_mnist_from_npz(tmp_path: Path, shape: tuple[int, ...]) -> None:
    content = arrays(shape)
    np.savez(tmp_path / "fashion-mnist.npz", **content)
    data = load_benchmark(small("fashion-mnist"), tmp_path)
    assert data.source == str(tmp_path / "fashion-mnist.npz")
    assert data.train.images.shape == (40, 3, 32, 32)


def test_files_that_are_damaged_are_named(tmp_path: Path) -> None:
    wanted, folder = small("fashion-mnist"), tmp_path / "FashionMNIST" / "raw"
    write_idx(folder, arrays(), packed=False)
    file = folder / "t10k-images-idx3-ubyte"
    content = file.read_bytes()
    for damaged, sentence in (
        (content[:-1], "expected 15680 bytes of data in .*t10k-images-idx3-ubyte, got 15679"),
        (content + b"x", "expected 15680 bytes"),
        (content[:7], "expected an IDX file of bytes in .*t10k-images"),
        (b"", "expected an IDX file"),
        (b"\0\0\x0d" + content[3:], "expected an IDX file"),
    ):
        file.write_bytes(damaged)
        with pytest.raises(ValueError, match=sentence):
            load_benchmark(wanted, tmp_path)
    file.unlink()
    with pytest.raises(ValueError, match=r"expected a file t10k-images-idx3-ubyte or t10k-images-\S*\.gz in"):
        load_benchmark(wanted, tmp_path)
    for rubbish in (b"rubbish", gzip.compress(content)[:-30]):
        file.with_name(f"{file.name}.gz").write_bytes(rubbish)
        with pytest.raises(ValueError, match=r"t10k-images-idx3-ubyte\.gz cannot be read"):
            read_idx(file)


def test_a_set_that_is_not_complete_is_refused(tmp_path: Path) -> None:
    content = arrays()
    np.savez(tmp_path / "fashion-mnist.npz", **content)
    with pytest.raises(ValueError, match=r"expected 6,000 train inputs in each .*npz: .*incomplete"):
        load_dataset("fashion-mnist", tmp_path)
    np.savez(tmp_path / "fashion-mnist.npz", **(content | {"y_train": np.zeros(40, int)}))
    with pytest.raises(ValueError, match=r"expected 4 train inputs in each of 10 classes .*, got 0 to 40"):
        load_benchmark(small("fashion-mnist"), tmp_path)
    np.savez(tmp_path / "fashion-mnist.npz", **(content | {"y_test": content["y_test"] + 1}))
    with pytest.raises(ValueError, match="a name for each of 11 classes, got 10"):
        load_benchmark(small("fashion-mnist"), tmp_path)
    np.savez(tmp_path / "fashion-mnist.npz", **arrays((30, 30)))
    with pytest.raises(ValueError, match=r"uint8 images of shape \(3, 32, 32\), got uint8 \(1, 30, 30\)"):
        load_benchmark(small("fashion-mnist"), tmp_path)


def test_the_real_sets_have_the_sizes_the_world_knows() -> None:
    sizes = {name: (one.train, one.test, one.classes, one.shape) for name, one in BENCHMARKS.items()}
    assert sizes == {
        "fashion-mnist": (60_000, 10_000, 10, (3, 32, 32)),
        "cifar-10": (50_000, 10_000, 10, (3, 32, 32)),
        "cifar-100": (50_000, 10_000, 100, (3, 32, 32)),
        "tiny-imagenet": (100_000, 10_000, 200, (3, 64, 64)),
    }
    for benchmark in BENCHMARKS.values():
        if benchmark.class_names is not None:
            assert len(set(benchmark.class_names)) == benchmark.classes
    assert list(BENCHMARKS["fashion-mnist"].class_names or ()) == import_datasets().FashionMNIST.classes


def test_cifar_from_torchvisions_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = write_cifar(tmp_path, monkeypatch)
    data = load_benchmark(small("cifar-10"), tmp_path)
    np.testing.assert_array_equal(data.train.images, content["x_train"])
    np.testing.assert_array_equal(data.test.labels, content["y_test"])
    assert data.class_names[0] == "airplane"


def test_a_pickle_of_another_checksum_is_never_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_cifar(tmp_path, monkeypatch)

    class Bomb:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return Path.touch, (tmp_path / "loaded",)  # type: ignore[return-value]

    (tmp_path / "cifar-10-batches-py" / "test_batch").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ValueError, match="cifar-10-batches-py is damaged or incomplete"):
        load_benchmark(small("cifar-10"), tmp_path)
    assert not (tmp_path / "loaded").exists()


def test_tiny_imagenet_from_its_archives_folder(tmp_path: Path) -> None:
    write_tiny_imagenet(tmp_path)
    data = load_benchmark(small("tiny-imagenet", classes=2), tmp_path)
    assert data.class_names == ("n01", "n02")
    assert data.train.labels.tolist() == [0] * 4 + [1] * 4
    assert data.test.labels.tolist() == [1, 1, 0, 0]
    assert data.train.images.shape == (8, 3, 64, 64)
    np.testing.assert_allclose(data.train.images[:, 0, 5, 5], [100, 110, 120, 130, 0, 10, 20, 30], atol=1)
    np.testing.assert_allclose(data.test.images[:, 2, 5, 5], [0, 1, 100, 101], atol=1)


def test_tiny_imagenet_that_is_damaged_is_refused(tmp_path: Path) -> None:
    write_tiny_imagenet(tmp_path)
    wanted, folder = small("tiny-imagenet", classes=2), tmp_path / "tiny-imagenet-200"
    image = folder / "val" / "images" / "val_3.JPEG"
    image.write_bytes(image.read_bytes()[:200])
    with pytest.raises(ValueError, match=r"val_3\.JPEG: the image cannot be read|val_3\.JPEG cannot be read"):
        load_benchmark(wanted, tmp_path)
    image.unlink()
    with pytest.raises(ValueError, match=r"val_3\.JPEG: the image cannot be read|val_3\.JPEG cannot be read"):
        load_benchmark(wanted, tmp_path)
    (folder / "val" / "val_annotations.txt").write_text("val_0.JPEG\tn99\t0\n")
    with pytest.raises(ValueError, match=r"val_annotations\.txt cannot be read"):
        load_benchmark(wanted, tmp_path)
    shutil.rmtree(folder / "train")
    (folder / "val" / "val_annotations.txt").write_text("")
    with pytest.raises(ValueError, match=r"expected images of 0 classes in .*tiny-imagenet-200"):
        load_benchmark(wanted, tmp_path)


def test_places_are_tried_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted, home = small("fashion-mnist"), tmp_path / "home"
    monkeypatch.setenv("RRISE_DATA", str(tmp_path / "named"))
    places = [
        (tmp_path / "given", "FashionMNIST/raw"),
        (tmp_path / "named", "FashionMNIST/raw"),
        (Path("data"), "FashionMNIST/raw"),
        (home / "data", "FashionMNIST/raw"),
        (home / ".cache" / "rrise", "FashionMNIST/raw"),
        (tmp_path / "installed", "fashion-mnist"),
    ]
    for place, folder in reversed(places):
        write_idx(place / folder, arrays(), packed=True)
        root = tmp_path / "given" if place.name == "given" else None
        assert load_benchmark(wanted, root, download=False).source == str(place / folder)
    np.savez(tmp_path / "given" / "fashion-mnist.npz", **arrays())
    assert load_benchmark(wanted, tmp_path / "given").source.endswith("given/fashion-mnist.npz")
    shutil.rmtree(tmp_path / "given")  # RRISE_DATA is not looked at when a root is given
    assert load_benchmark(wanted, tmp_path / "given").source == "data/FashionMNIST/raw"


def test_without_the_data_one_sentence_names_the_ways_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways = (
        r"install Debian's package dataset-fashion-mnist, or put fashion-mnist\.npz .* or the folder "
        r"FashionMNIST, into \./data or into the folder given by RRISE_DATA or the data root"
    )
    with pytest.raises(ValueError, match=f"was not found on this machine: {ways}, or allow the download"):
        load_dataset("fashion-mnist", download=False)
    datasets = import_datasets()
    monkeypatch.setattr(datasets.FashionMNIST, "mirrors", [f"file://{tmp_path}/nowhere/"])
    monkeypatch.setattr(datasets.CIFAR100, "url", f"file://{tmp_path}/nowhere.tar.gz")
    monkeypatch.setattr(benchmarks, "_TINY_IMAGENET_URL", f"file://{tmp_path}/nowhere.zip")
    for name in ("fashion-mnist", "cifar-100", "tiny-imagenet"):
        with pytest.raises(ValueError, match=f"{name} was not found .* could not be .*nowhere") as error:
            load_dataset(name, tmp_path / "root")
        assert "\n" not in str(error.value)
        assert not (tmp_path / "root").exists()
    (tmp_path / "root").mkdir()
    with pytest.raises(ValueError, match="could not be downloaded"):
        load_dataset("cifar-100", tmp_path / "root")
    assert list((tmp_path / "root").iterdir()) == []
    assert socket.getdefaulttimeout() is None


@pytest.mark.filterwarnings("ignore:Python 3.14 will, by default, filter extracted tar:DeprecationWarning")
@pytest.mark.parametrize("named", [True, False])
def test_a_download_is_checked_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: tuple[Path, str], named: bool
) -> None:
    folder, address = server
    content = write_cifar(folder, monkeypatch)
    archive = folder / "cifar-10-python.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(folder / "cifar-10-batches-py", "cifar-10-batches-py")
    cifar = import_datasets().CIFAR10
    monkeypatch.setattr(cifar, "url", f"{address}/{archive.name}")
    root = tmp_path / "root" if named else tmp_path / "home" / ".cache" / "rrise"
    given = root if named else None
    with pytest.raises(ValueError, match=r"could not be downloaded .*corrupted"):
        load_benchmark(small("cifar-10"), given)
    assert not root.exists()
    monkeypatch.setattr(cifar, "tgz_md5", hashlib.md5(archive.read_bytes()).hexdigest())
    data = load_benchmark(small("cifar-10"), given)
    assert data.source == f"downloaded to {root / 'cifar-10-batches-py'}"
    np.testing.assert_array_equal(data.train.images, content["x_train"])
    assert [path.name for path in root.iterdir()] == ["cifar-10-batches-py"]
    assert load_benchmark(small("cifar-10"), given, download=False).source == str(
        root / "cifar-10-batches-py"
    )


def test_tiny_imagenet_is_downloaded_from_its_own_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: tuple[Path, str]
) -> None:
    folder, address = server
    write_tiny_imagenet(folder)
    archive = Path(shutil.make_archive(str(folder / "tiny-imagenet-200"), "zip", folder, "tiny-imagenet-200"))
    monkeypatch.setattr(benchmarks, "_TINY_IMAGENET_URL", f"{address}/{archive.name}")
    monkeypatch.setattr(benchmarks, "_TINY_IMAGENET_MD5", hashlib.md5(archive.read_bytes()).hexdigest())
    data = load_benchmark(small("tiny-imagenet", classes=2), tmp_path / "root")
    assert data.source == f"downloaded to {tmp_path / 'root' / 'tiny-imagenet-200'}"
    assert len(data.train) == 8


@pytest.mark.skipif(not DEBIAN.is_dir(), reason="Debian's package dataset-fashion-mnist is not installed")
def test_the_real_fashion_mnist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmarks, "_INSTALLED", DEBIAN.parent)
    data = load_dataset("fashion-mnist", download=False)
    assert data.source == str(DEBIAN)
    assert data.train.images.shape == (60_000, 3, 32, 32)
    assert data.test.images.dtype == np.uint8
    assert data.train.labels[:5].tolist() == [9, 0, 0, 3, 0]
    assert abs(data.train.images.mean() / 255 - 0.2860) < 0.002  # the mean that users of the set normalise by
