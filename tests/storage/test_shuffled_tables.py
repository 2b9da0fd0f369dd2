"""Tables in random order: whatever the source every row once, and whole or not at all."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.sparse
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

import chaffinch
from chaffinch import InputError
from chaffinch.storage.shuffled import readers, row_blocks
from chaffinch.storage.shuffled.writer import Shuffled
from tests.flows.cli.programs import python
from tests.storage.synthetic_rows import all_rows, synthetic

FORMS = pytest.mark.parametrize("form", ["dense", "sparse"])


def as_form(X, form):
    return scipy.sparse.csr_array(X) if form == "sparse" else X


@FORMS
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_row_is_there_once_with_its_target_in_an_order_that_tells_nothing(
    tmp_path, form, dtype
) -> None:
    X, y = synthetic()
    X = X.astype(dtype)
    table = chaffinch.shuffle_pieces([(as_form(X, form), y)], tmp_path / "x.parquet")
    assert table.shape == X.shape
    rows, target = all_rows(table)
    assert rows.dtype == dtype
    order = rows[:, 0].astype(int)
    assert sorted(order) == list(range(5000))
    assert (rows == X[order]).all()
    assert (target == y[order]).all()
    assert abs(np.corrcoef(order, np.arange(5000))[0, 1]) < 0.05
    assert abs(np.corrcoef(order[1:], order[:-1])[0, 1]) < 0.05


@FORMS
def test_each_block_is_a_sample_and_none_is_small(tmp_path, form) -> None:
    X, y = synthetic()
    table = chaffinch.shuffle_pieces(
        [(as_form(X, form), y)], tmp_path / "x.parquet", block_rows=1200
    )
    assert table.block_rows == (1250, 1250, 1250, 1250)
    for block in range(4):
        assert table.read(block)[1].mean() == pytest.approx(y.mean(), rel=0.05)


@FORMS
def test_only_the_seed_decides_the_order(tmp_path, form, monkeypatch) -> None:
    X, y = synthetic()

    def written(name, size, **options):
        parts = [
            (as_form(X[first : first + size], form), y[first : first + size])
            for first in range(0, 5000, size)
        ]
        path = tmp_path / name
        return chaffinch.shuffle_pieces(iter(parts), path, block_rows=1000, **options).hash

    once = written("once.parquet", 5000)
    assert written("pieces.parquet", 777) == once
    monkeypatch.setattr(row_blocks, "_MOST_VALUES", 5000)
    assert written("smaller.parquet", 5000) == once
    bytes_of = [(tmp_path / name).read_bytes() for name in ("once.parquet", "smaller.parquet")]
    assert bytes_of[0] == bytes_of[1]
    assert written("other.parquet", 5000, seed=1) != once


def test_buckets_that_are_too_large_are_parted_again_without_a_trace(tmp_path) -> None:
    orders = []
    for most_bytes in (2**26, 1000, 50):
        folder = tmp_path / str(most_bytes)
        folder.mkdir()
        shuffled = Shuffled(folder, 7, most_bytes)
        shuffled.scatter({"x": pa.array(np.arange(n, n + 500))} for n in range(0, 3000, 500))
        orders.append(np.concatenate([table["x"].to_numpy() for table in shuffled.tables()]))
        assert [path for path in folder.rglob("*") if path.is_file()] == []
    assert sorted(orders[0]) == list(range(3000))
    assert (orders[0] == orders[1]).all()
    assert (orders[0] == orders[2]).all()


@pytest.mark.parametrize("zero_based", [True, False])
@pytest.mark.parametrize("ending", [".svmlight", ".txt.gz"])
def test_svmlight_is_read_in_pieces_as_scikit_learn_reads_it(
    tmp_path, monkeypatch, zero_based, ending
) -> None:
    X, y = synthetic(600)
    text = tmp_path / "x.svmlight"
    dump_svmlight_file(X, y, str(text), zero_based=zero_based, comment="two\nlines")
    lines = text.read_bytes().replace(b"\n3 ", b"\n\n# nothing\n3 ")
    source = tmp_path / f"given{ending}"
    source.write_bytes(gzip.compress(lines) if ending.endswith("gz") else lines.rstrip(b"\n"))
    expected, target = load_svmlight_file(str(text), zero_based=zero_based)
    monkeypatch.setattr(readers, "_BYTES_AT_A_TIME", 1000)
    table = chaffinch.shuffle_svmlight(
        source, tmp_path / "x.parquet", zero_based=zero_based, n_columns=40
    )
    rows, found = all_rows(table)
    assert rows.shape == (600, 40)
    order = rows[:, 0].astype(int)
    assert (rows[:, :30] == expected.toarray()[order]).all()
    assert (found == target[order]).all()
    single = chaffinch.shuffle_svmlight(
        source, tmp_path / "y.parquet", zero_based=zero_based, dtype="float32"
    )
    assert single.shape == (600, 30)
    assert [single.name_of(column) for column in (0, 29)] == (
        ["0", "29"] if zero_based else ["1", "30"]
    )
    assert all_rows(single)[0].dtype == np.float32


def test_what_gzip_wrote_is_read_whatever_its_ending(tmp_path) -> None:
    text, packed = tmp_path / "x.svm", tmp_path / "y.svm"
    text.write_text("1 1:2 3:1\n0 2:1\n" * 50)
    packed.write_bytes(gzip.compress(text.read_bytes()))
    plain, unpacked = (
        chaffinch.shuffle_svmlight(source, tmp_path / "x.parquet", zero_based=False).hash
        for source in (text, packed)
    )
    assert plain == unpacked


@pytest.mark.parametrize("compress", [bz2.compress, lzma.compress])
def test_what_another_program_compressed_is_said_to_be_that(tmp_path, compress) -> None:
    (tmp_path / "x.svm").write_bytes(compress(b"1 1:2\n"))
    with pytest.raises(InputError, match=r"x.svm is compressed by (bzip2|xz); unpack it, or give"):
        chaffinch.shuffle_svmlight(tmp_path / "x.svm", tmp_path / "x.parquet", zero_based=False)


@pytest.mark.parametrize("value", ["1e39", "-1e39"])
def test_a_value_that_float32_cannot_hold_is_told_to_be_kept_as_float64(tmp_path, value) -> None:
    source, path = tmp_path / "x.svm", tmp_path / "x.parquet"
    source.write_text(f"1 1:2\n# so\n0 1:1 2:{value}\n1 2:inf\n")
    said = rf"line 3 of x.svm has {value[:-2]}\+39 in column 2, which float32 cannot .* to float64"
    with pytest.raises(InputError, match=said):
        chaffinch.shuffle_svmlight(source, path, zero_based=False, dtype="float32")
    with pytest.raises(InputError, match=r"line 4 of x.svm has inf in column 2,"):
        chaffinch.shuffle_svmlight(source, path, zero_based=False)
    source.write_text(f"1 1:2\n0 1:1 2:{value}\n1 2:1\n")
    table = chaffinch.shuffle_svmlight(source, path, zero_based=False)
    assert float(value) in table.read(0)[0].data


def test_parquet_files_of_a_folder_are_one_table_of_numbers(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(readers, "_VALUES_AT_A_TIME", 2000)
    X, y = synthetic(3000, 5)
    frame = pd.DataFrame(X, columns=list("abcde"))
    frame["whole"], frame["yes"] = np.arange(3000), y > 3000
    frame["label"] = np.where(y > 1500, "high", "low")
    frame["day"] = pd.Timestamp("2024-01-01")
    (tmp_path / "in").mkdir()
    frame[:1700].to_parquet(tmp_path / "in" / "1.parquet", index=False)
    frame[1700:].to_parquet(tmp_path / "in" / "2.parquet", index=False, row_group_size=500)
    table = chaffinch.shuffle_parquet(
        tmp_path / "in", tmp_path / "x.parquet", target="label", drop=["day"]
    )
    assert table.columns == ("a", "b", "c", "d", "e", "whole", "yes")
    assert table.labels.tolist() == ["high", "low"]
    rows, target = all_rows(table)
    order = rows[:, 5].astype(int)
    assert sorted(order) == list(range(3000))
    expected = frame.drop(columns=["label", "day"]).to_numpy(float)
    assert (rows == expected[order]).all()
    assert (target == frame["label"].to_numpy()[order]).all()
    sparse = chaffinch.shuffle_parquet(
        tmp_path / "in", tmp_path / "y.parquet", target="label", drop=["day"], sparse=True
    )
    assert sparse.columns == table.columns
    assert sparse.read(0)[0].nnz == np.count_nonzero(expected)
    assert (all_rows(sparse)[0] == rows).all()


@pytest.mark.e2e
def test_a_footer_may_be_as_large_as_that_of_a_million_columns(tmp_path) -> None:
    table = pa.table({"a": [1.0, 0.0], "y": [0.0, 1.0]})
    large = table.replace_schema_metadata(dict.fromkeys(map(str, range(1_000_002)), ""))
    pyarrow.parquet.write_table(large, tmp_path / "in.parquet")
    with pytest.raises(OSError, match="Exceeded size limit"):
        pyarrow.parquet.ParquetFile(tmp_path / "in.parquet")
    shuffled = chaffinch.shuffle_parquet(tmp_path / "in.parquet", tmp_path / "x", target="y")
    assert shuffled.shape == (2, 1)


def test_several_files_are_one_table_the_same_as_if_they_were_one(tmp_path) -> None:
    X, y = synthetic(2500, 6)
    X[2000:, 4:] = 0  # the last of three texts goes up to a lower column
    ends = ((0, 900), (900, 2000), (2000, 2500))
    texts, files, frame = [], [], pd.DataFrame(X, columns=list("abcdef")).assign(y=y)
    for number, (first, last) in enumerate(ends):
        texts.append(tmp_path / f"{number}.svm")
        dump_svmlight_file(X[first:last], y[first:last], str(texts[-1]), zero_based=True)
        files.append(tmp_path / f"{number}.parquet")
        frame[first:last].to_parquet(files[-1])
    (tmp_path / "all.svm").write_bytes(b"".join(text.read_bytes() for text in texts))
    frame.to_parquet(tmp_path / "all.parquet")
    for several, one, shuffle, asked in (
        (texts, "all.svm", chaffinch.shuffle_svmlight, {"zero_based": True}),
        (files, "all.parquet", chaffinch.shuffle_parquet, {"target": "y"}),
    ):
        of_one = shuffle(tmp_path / one, tmp_path / "x", **asked)
        of_several = shuffle([str(several[0]), *several[1:]], tmp_path / "y", **asked)
        assert of_several.shape == (2500, 6)
        assert of_several.hash == of_one.hash
    texts[1].write_text("1 0:2\n1 0:nan\n")
    with pytest.raises(InputError, match="line 2 of 1\\.svm has nan in column 0"):
        chaffinch.shuffle_svmlight(texts, tmp_path / "z", zero_based=True)
    for wrong, said in (
        ([], "must be at least one file but is none"),
        ([texts[0], tmp_path / "9.svm"], "there is no file .*9.svm; nearest"),
        (["s3://shop/0.svm"], "0.svm must be a file on this disk, .* copy it here first"),
        ([texts[0], tmp_path / "z"], "there is no file"),
        ([texts[0], texts[2]], "is the source itself"),
    ):
        with pytest.raises(InputError, match=said):
            chaffinch.shuffle_svmlight(wrong, texts[2], zero_based=True)


@pytest.mark.parametrize(
    ("y", "kind", "labels"),
    [
        (np.arange(1200) % 3, "i", [0, 1, 2]),
        (np.arange(1200) % 2 == 0, "b", [False, True]),
        (np.arange(1200) % 2 * 0.5, "f", [0, 0.5]),
        (np.arange(1200) / 7, "f", None),
        (np.arange(1200, dtype=np.uint8) % 4, "i", [0, 1, 2, 3]),
        (np.array(["ä", "b"] * 600), "U", ["b", "ä"]),
        (np.array(["x", "yy"] * 600, dtype=object), "U", ["x", "yy"]),
    ],
)
def test_targets_keep_their_type_and_say_what_labels_there_are(tmp_path, y, kind, labels) -> None:
    X = np.arange(2400.0).reshape(1200, 2)
    pieces_of = [(X[:500], y[:500]), (X[500:], y[500:])]
    table = chaffinch.shuffle_pieces(pieces_of, tmp_path / "x.parquet")
    assert table.target_type.kind == kind
    assert (None if table.labels is None else table.labels.tolist()) == labels
    rows, target = all_rows(table)
    assert (target == y[(rows[:, 0] / 2).astype(int)]).all()


# --- sudden ends --------------------------------------------------------------------------------

ENDLESS = """
import sys, numpy as np, chaffinch
from pathlib import Path
def pieces():
    X = np.random.default_rng(0).normal(size=(4000, 20))
    while True:
        yield X, X[:, 0]
chaffinch.shuffle_pieces(pieces(), Path(sys.argv[1]))
"""


def test_a_writer_that_is_killed_leaves_what_was_there_and_the_next_one_cleans_up(tmp_path) -> None:
    X, y = synthetic(1200)
    path = tmp_path / "x.parquet"
    before = chaffinch.shuffle_pieces([(X, y)], path).hash
    writer = subprocess.Popen([sys.executable, "-c", ENDLESS, str(path)])
    try:
        until = time.monotonic() + 60
        while not list(tmp_path.glob(".aside-x.parquet/*.arrow")) and time.monotonic() < until:
            time.sleep(0.02)
        assert list(tmp_path.glob(".aside-x.parquet/*.arrow"))
    finally:
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
    assert chaffinch.open_shuffled(path).hash == before
    assert [p.name for p in tmp_path.iterdir() if p.name[0] != "."] == ["x.parquet"]
    after = chaffinch.shuffle_pieces([(X, y + 1)], path)
    assert after.hash != before
    assert not list(tmp_path.glob(".aside*"))
    assert (all_rows(after)[1] - 1 == 2 * all_rows(after)[0][:, 0] + 1).all()


FULL = """
import resource, sys, numpy as np, chaffinch
from pathlib import Path
X = np.random.default_rng(0).normal(size=(4000, 20))
for limit in (100_000, 5_000):  # of the file, and of the buckets
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        chaffinch.shuffle_pieces([(X, X[:, 0])], Path(sys.argv[1]))
    except chaffinch.StorageError as error:
        print(error)
"""


def test_a_full_disk_is_said_in_one_line_and_leaves_nothing(tmp_path) -> None:
    done = python(FULL, tmp_path / "x.parquet")
    assert done.stderr == ""
    assert done.stdout == 2 * (
        f"no space left for a file of this size on the device of {tmp_path} while writing "
        "x.parquet: free some or name another place\n"
    )
    assert not (tmp_path / "x.parquet").exists()
    assert not list(tmp_path.glob(".aside*"))


def test_a_table_behind_a_link_is_written_where_the_link_leads(tmp_path) -> None:
    (tmp_path / "disk").mkdir()
    link, behind = tmp_path / "x.parquet", tmp_path / "disk" / "rows.parquet"
    link.symlink_to(behind)
    written = chaffinch.shuffle_pieces([(np.eye(3), np.arange(3.0))], link)
    assert link.is_symlink()
    assert chaffinch.open_shuffled(behind).hash == written.hash
    assert {path.name for path in tmp_path.iterdir()} == {"disk", "x.parquet"}
