"""What is in an output folder."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset

from rrise.certifiers.certificates import Certificates


def certificates_in(out: Path) -> pa.Table:
    parts = sorted(out.glob("part-*.parquet"))
    return pa.dataset.dataset(parts, format="parquet").to_table()


def assert_same(rows: pa.Table, expected: Certificates) -> None:
    assert rows["index"].to_pylist() == list(range(len(expected)))
    for name in ("label", "radius", "lower_bound", "issued", "passes"):
        np.testing.assert_array_equal(rows[name].to_numpy(), getattr(expected, name))
    assert rows["error"].null_count == len(rows)
