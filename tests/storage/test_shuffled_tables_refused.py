"""Tables in random order: nothing wrong gets in or out, and each refusal names where it is."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.sparse

import chaffinch
from chaffinch import InputError, StorageError
from tests.storage.synthetic_rows import all_rows, synthetic


def svmlight_file(text):
    def write(folder):
        (folder / "x.svmlight").write_text(text)
        return chaffinch.shuffle_svmlight(
            folder / "x.svmlight", folder / "x.parquet", zero_based=False, n_columns=5
        )

    return write


def of_pieces(*given, **options):
    return lambda folder: chaffinch.shuffle_pieces(given, folder / "x.parquet", **options)


def parquet_file(frame, **options):
    def write(folder):
        pd.DataFrame(frame).to_parquet(folder / "in.parquet", row_group_size=1)
        return chaffinch.shuffle_parquet(
            folder / "in.parquet", folder / "x.parquet", **{"target": "y", **options}
        )

    return write


X3, Y3 = np.eye(3), np.arange(3.0)
FRAME3 = pd.DataFrame(X3, columns=["a", "b", "c"])
BAD = {
    "unsorted": (svmlight_file("1 1:2 3:1\n\n0 4:1 2:1\n"), "line 3 of x.svmlight cannot be read"),
    "twice": (svmlight_file("1 1:2\n0 2:1 2:1\n"), "line 2 .*sorted and unique.*columns that asc"),
    "zero": (svmlight_file("1 1:2\n1 0:2\n"), "line 2 .* column 0 but .* from 1; .* --zero-based"),
    "negative": (svmlight_file("1 1:2\n1 -4:2\n"), "line 2 of x.svmlight cannot be read .Invalid"),
    "huge index": (
        svmlight_file("1 1:2\n1 4294967296:2\n"),
        r"column 4294967296 but .* 1\.\.2147483647",
    ),
    "longer index": (
        svmlight_file(f"1 1:2\n1 1:1 {'9' * 5000}:2\n"),
        r"line 2 of x.svmlight has column 9{80}\.\.\. but columns must be in 1\.\.2147483647; corr",
    ),
    "table of another format": (
        svmlight_file(",".join(map(str, range(20_000)))),
        r"^line 1 of x.svmlight cannot be read .{81}\.\.\.., as in `1 1:0\.5`: [^`]{100,150}$",
    ),
    "compressed": (svmlight_file("BZh91AY&SY"), "x.svmlight is compressed by bzip2; unpack it,"),
    "label": (svmlight_file("1 1:2\nspam 2:1\n"), "line 2 .*'?spam.*a label that is a number"),
    "too far": (
        svmlight_file("1 1:2\n# so\n0 2:1 6:1\n"),
        r"line 3 .* column 6 but columns are 1\.\.5",
    ),
    "nan": (svmlight_file("1 1:2\n0 2:nan\n"), "line 2 of x.svmlight has nan in column 2,"),
    "infinite": (svmlight_file("1 1:2\n0 2:inf\n"), "line 2 of x.svmlight has inf in column 2,"),
    "no target": (svmlight_file("1 1:2\nnan 2:1\n"), "line 2 of x.svmlight has the target nan"),
    "empty": (svmlight_file("# nothing\n"), "the source has no rows"),
    "dense nan": (of_pieces((X3 * np.nan, Y3)), "row 1 has nan in column 0"),
    "later nan": (
        of_pieces((X3, Y3), (np.where(X3 > 0, X3, np.nan), Y3)),
        "row 4 has nan in column 1",
    ),
    "columns": (of_pieces((X3, Y3), (X3[:, :2], Y3)), "row 4 has 2 columns but .* have 3;"),
    "form": (
        of_pieces((X3, Y3), (scipy.sparse.csr_array(X3), Y3)),
        "row 4 is sparse float64 but those before are dense float64; give all pieces alike",
    ),
    "names": (
        of_pieces((FRAME3, Y3), (X3, Y3), (FRAME3[["a", "c", "b"]], Y3)),
        "column 1 of a piece is 'c' but 'b' in the first; give every piece the same columns in",
    ),
    "targets": (of_pieces((X3, Y3[:2])), r"piece 1: y must have shape \(3,\), .* has \(2,\)"),
    "kinds": (of_pieces((X3, Y3), (X3, ["a"] * 3)), "row 4 has text as target but .* have numbers"),
    "gap": (of_pieces((X3, np.array(["a", None, "b"]))), "piece 1: y .* has none in row 2; leave"),
    "gap in a list of text": (of_pieces((X3, ["a", "b", np.nan])), "piece 1: y .* none in row 3"),
    "gap in true and false": (
        parquet_file({"a": [1, 2], "y": pd.array([True, None], "boolean")}),
        "row 2 of in.parquet has the target None; leave out rows without one",
    ),
    "types": (of_pieces((X3, ["a", 1, "b"])), "piece 1: y must .* but holds 'a' and 1; make"),
    "objects": (of_pieces((X3, np.array([{1}, {2}, {3}]))), r"or text but holds \{1\} in row 1"),
    "no columns": (of_pieces((X3[:, :0], Y3)), r"piece 1: X must .* has shape \(3, 0\)"),
    "one target": (of_pieces((X3, 1)), r"piece 1: y must have shape \(3,\), .* has a int;"),
    "no pair": (of_pieces(X3), "pieces must be several .* one is of type ndarray; of one table"),
    "three": (of_pieces((X3, Y3, Y3)), r"one is of type tuple of length 3; of one .* \[\(X, y\)\]"),
    "no pieces": (
        lambda folder: chaffinch.shuffle_pieces(None, folder / "x.parquet"),
        "pieces must be several .* but are of type NoneType; of one",
    ),
    "mask": (of_pieces((np.ma.masked_equal(X3, 1), Y3)), "piece 1: X must have no masked .* has 3"),
    "masked target": (
        of_pieces((X3, np.ma.masked_equal(Y3, 1))),
        "piece 1: y must .* masked .* has 1",
    ),
    "gap among objects": (
        of_pieces((X3, np.array([0.5, np.nan, 1], object))),
        "piece 1: y .* has none in row 2; leave out",
    ),
    "infinite object": (
        of_pieces((X3, np.array([0.5, 2, -np.inf], object))),
        "piece 1: y must be finite but is -inf in row 3",
    ),
    "long numbers": (
        of_pieces((X3, [2**70 + 1, 1, 2])),
        r"64 bits but holds 1180591620717411303425",
    ),
    "text": (of_pieces((X3.astype(str), Y3)), "piece 1: X cannot be read .*strings"),
    "none": (of_pieces(), "the source has no rows"),
    "seed": (of_pieces((X3, Y3), seed=-1), "seed must be a whole number, at least 0, but is -1"),
    "blocks": (
        of_pieces((X3, Y3), block_rows=40),
        "block_rows must be .* at least 1000, but is 40",
    ),
    "classes": (
        of_pieces((np.ones((1500, 1)), np.arange(1500).astype(str))),
        "the target must have at most 1000 classes but has more by row 1500; give numbers",
    ),
    "category": (parquet_file({"a": ["x"], "y": [1]}), "column 'a' must hold numbers but is"),
    "no such": (parquet_file({"a": [1], "z": [1]}), "there is no column 'y'"),
    "dropped": (parquet_file({"a": [1], "y": [1]}, drop=["y"]), "'y' is the target and cannot"),
    "missing": (
        parquet_file({"a": [1, None], "y": [1, 2]}),
        "row 2 of in.parquet has nan in column 'a',",
    ),
    "large": (
        parquet_file({"a": [1, 2], "id": [2**53, -(2**53) - 1], "y": [1, 2]}),
        "row 2 of in.parquet has -9007199254740993 in column 'id', a whole number beyond "
        "9007199254740992 that would be rounded; drop the column",
    ),
    "unsigned": (
        parquet_file({"id": pd.Series([None, 2**64 - 1], dtype="UInt64"), "y": [1, 2]}),
        "row 2 of in.parquet has 18446744073709551615 in column 'id', a whole number beyond",
    ),
    "of a frame": (
        of_pieces((pd.DataFrame({"a": [1.0], "b": [np.inf]}), [1.0])),
        "row 1 has inf in column 'b',",
    ),
    "alone": (parquet_file({"y": [1]}), "no columns but the target"),
    "sparse gap": (
        parquet_file({"a": [0.0, None, 1.0], "b": [0.0] * 3, "y": Y3}, sparse=True),
        "row 2 of in.parquet has nan in column 'a',",
    ),
    "sparse large": (
        parquet_file({"id": [1, 2, 2**53 + 1], "y": Y3}, sparse=True),
        "row 3 of in.parquet has 9007199254740993 in column 'id', a whole number beyond",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_is_refused_in_one_line_that_names_the_row_and_leaves_nothing(
    tmp_path, name
) -> None:
    write, said = BAD[name]
    with pytest.raises(InputError, match=said) as refusal:
        write(tmp_path)
    assert "\n" not in str(refusal.value)
    assert not (tmp_path / "x.parquet").exists()
    assert not list(tmp_path.glob(".aside*"))


# --- reading ------------------------------------------------------------------------------------


def by_another_writer(path, indices, values, **said):
    """Write a file of the format with one row of these indices and values beside a good one."""
    table = pa.table(
        {
            "indices": pa.array([[0, 1], indices], pa.list_(pa.int32())),
            "values": pa.array([[1.0, 2.0], values], pa.list_(pa.float64())),
            "target": pa.array([1.0, 2.0]),
        }
    )
    footer = {
        "format_version": 1, "format": "chaffinch shuffled table", "form": "sparse", "n_rows": 2,
        "n_columns": 4, "hash": "0" * 64, **said,
    }  # fmt: skip
    metadata = {b"chaffinch": json.dumps(footer).encode()}
    pyarrow.parquet.write_table(table.replace_schema_metadata(metadata), path)


@pytest.mark.parametrize(
    ("indices", "values", "said"),
    [
        ([2, 1], [1.0, 1.0], "row 2 of x.parquet has column 1 after column 2; sort the columns"),
        ([2, 2], [1.0, 1.0], "row 2 of x.parquet has column 2 twice; sort the columns"),
        ([2, 4], [1.0, 1.0], r"row 2 of x.parquet has a value in column 4 but columns are 0\.\.3"),
        ([-1, 2], [1.0, 1.0], "row 2 of x.parquet has a value in column -1 but"),
        ([2, 3], [1.0, np.nan], "row 2 of x.parquet has nan in column 3, which is no number"),
        ([2, 3], [np.inf, 1.0], "row 2 of x.parquet has inf in column 2, which is no number"),
    ],
)
def test_rows_that_another_writer_got_wrong_are_named(tmp_path, indices, values, said) -> None:
    path = tmp_path / "x.parquet"
    by_another_writer(path, [2, 3], [1.0, 1.0])
    assert chaffinch.open_shuffled(path).read(0)[0].toarray().tolist()[1] == [0, 0, 1, 1]
    by_another_writer(path, indices, values)
    with pytest.raises(InputError, match=said):
        chaffinch.open_shuffled(path).read(0)


def test_a_row_that_another_writer_got_wrong_names_its_column(tmp_path) -> None:
    by_another_writer(tmp_path / "x.parquet", [2, 3], [1.0, np.nan], columns=list("abcd"))
    with pytest.raises(InputError, match=r"row 2 of x.parquet has nan in column 'd', which is no"):
        chaffinch.open_shuffled(tmp_path / "x.parquet").read(0)
    by_another_writer(tmp_path / "x.parquet", [2, 4], [1.0, 1.0], columns=list("abcd"))
    with pytest.raises(InputError, match=r"has a value in column 4 but columns are 'a'\.\.'d'"):
        chaffinch.open_shuffled(tmp_path / "x.parquet").read(0)


@pytest.mark.parametrize("block", [1, -1, "0", 0.5, None])
def test_a_block_that_is_not_there_is_no_damage(tmp_path, block) -> None:
    table = of_pieces((X3, Y3))(tmp_path)
    with pytest.raises(InputError, match=f"block must be a whole number in 0..0 but is {block!r}"):
        table.read(block)


def test_whole_numbers_that_float64_holds_stay_as_they_are(tmp_path) -> None:
    table = parquet_file({"a": [2**53, -(2**53), 7] * 400, "y": [1, 2, 3] * 400})(tmp_path)
    rows, target = all_rows(table)
    assert set(zip(rows[:, 0].tolist(), target.tolist(), strict=True)) == {
        (2.0**53, 1), (-(2.0**53), 2), (7.0, 3),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("said", "error", "message"),
    [
        ({"format_version": 2}, StorageError, "was written by a later release"),
        ({"n_rows": 3}, StorageError, "its columns or rows are not those that it names"),
        ({"form": "dense"}, StorageError, "its columns or rows are not those that it names"),
        ({"format": "other"}, StorageError, "is damaged: its format is 'other'"),
        ({"hash": 3}, StorageError, "is damaged"),
    ],
)
def test_a_footer_that_does_not_fit_is_refused(tmp_path, said, error, message) -> None:
    by_another_writer(tmp_path / "x.parquet", [2], [1.0], **said)
    with pytest.raises(error, match=message):
        chaffinch.open_shuffled(tmp_path / "x.parquet")


def test_rows_of_as_many_indices_as_values_are_needed(tmp_path) -> None:
    by_another_writer(tmp_path / "x.parquet", [2, 3], [1.0])
    with pytest.raises(StorageError, match="a row has not as many indices as values; write it"):
        chaffinch.open_shuffled(tmp_path / "x.parquet").read(0)


def test_files_that_are_not_of_the_format_are_refused_with_the_way_there(tmp_path) -> None:
    X, y = synthetic(1200)
    pd.DataFrame(X).add_prefix("x").assign(y=y).to_parquet(tmp_path / "plain.parquet")
    said = "may have its rows in an order of their own, .* by chaffinch.shuffle_parquet"
    with pytest.raises(InputError, match=said):
        chaffinch.open_shuffled(tmp_path / "plain.parquet")
    with pytest.raises(InputError, match=r"there is no file .*plane.parquet; nearest"):
        chaffinch.open_shuffled(tmp_path / "plane.parquet")
    with pytest.raises(InputError, match="the table must be a path but is 3; give a path"):
        chaffinch.open_shuffled(3)
    with pytest.raises(InputError, match="the table must be a path but is of type DataFrame; give"):
        chaffinch.open_shuffled(pd.DataFrame(X))
    with pytest.raises(InputError, match="is a folder; name a file"):
        chaffinch.open_shuffled(tmp_path)
    with pytest.raises(InputError, match="the table must be on this disk but is an address; give"):
        chaffinch.open_shuffled("s3://shop/plain.parquet")
    with pytest.raises(InputError, match="the table must be on this disk but is an address; give"):
        chaffinch.shuffle_pieces([(X, y)], "s3://shop/plain.parquet")
    (tmp_path / "text.parquet").write_text("1 3:0.5")
    said = "text.parquet is not a table in random order, as it is not Parquet; .* chaffinch shuffle"
    with pytest.raises(InputError, match=said):
        chaffinch.open_shuffled(tmp_path / "text.parquet")
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "plain.parquet").read_bytes()[:-9])
    with pytest.raises(StorageError, match=r"cut.parquet is damaged: .*; write it again"):
        chaffinch.open_shuffled(tmp_path / "cut.parquet")


def test_a_flipped_byte_and_a_file_that_was_replaced_are_noticed(tmp_path) -> None:
    X, y = synthetic(1200)
    path = tmp_path / "x.parquet"
    table = chaffinch.shuffle_pieces([(X, y)], path)
    whole = path.read_bytes()
    for place in (300, len(whole) // 3, len(whole) // 2):
        broken = bytearray(whole)
        broken[place] ^= 1
        path.write_bytes(bytes(broken))
        with pytest.raises(StorageError, match=r"x.parquet is damaged: .*; write it again"):
            chaffinch.open_shuffled(path).read(0)
    chaffinch.shuffle_pieces([(X, y + 1)], path)
    with pytest.raises(StorageError, match="was rewritten since it was opened; open it again"):
        table.read(0)


def test_a_source_is_never_written_over(tmp_path) -> None:
    text, folder = tmp_path / "rows.svm", tmp_path / "parts"
    text.write_text("1 1:2\n" * 5)
    folder.mkdir()
    frame = pd.DataFrame({"a": [1.0, 2.0], "y": [0.0, 1.0]})
    frame.to_parquet(folder / "one.parquet")
    (tmp_path / "link.parquet").symlink_to(folder / "one.parquet")
    before = text.read_bytes(), (folder / "one.parquet").read_bytes()
    with pytest.raises(InputError, match="is the source itself, which would be lost"):
        chaffinch.shuffle_svmlight(text, text, zero_based=False)
    for source, path in (("parts", "parts/one.parquet"), ("parts/one.parquet", "link.parquet")):
        with pytest.raises(InputError, match="parquet is the source itself"):
            chaffinch.shuffle_parquet(tmp_path / source, tmp_path / path, target="y")
    assert (text.read_bytes(), (folder / "one.parquet").read_bytes()) == before
