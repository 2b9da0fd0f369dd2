"""Delta tables as Spark writes them: with deletion vectors, and with renamed columns."""

import base64
import json
import struct
import uuid
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_ID = uuid.UUID(int=7)
_RFC_1924 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def delete_by_vector(table: Path, rows: Sequence[int]) -> None:
    """Delete rows of the first file of a table, which stays as it is, by a new version."""
    add = next(action["add"] for action in _actions(table, 0) if "add" in action)
    # a bitmap of one container, an array of 16-bit numbers, by Delta's protocol
    header = struct.pack("<IQIIIHHI", 1681511377, 1, 0, 12346, 1, 0, len(rows) - 1, 16)
    bitmap = header + struct.pack(f"<{len(rows)}H", *rows)
    sum_of_bitmap = struct.pack(">I", zlib.crc32(bitmap))
    (table / f"deletion_vector_{_ID}.bin").write_bytes(
        b"\1" + struct.pack(">I", len(bitmap)) + bitmap + sum_of_bitmap
    )
    name = base64.b85encode(_ID.bytes).decode().translate(str.maketrans(_RFC_1924, _Z85))
    vector = {
        "storageType": "u",
        "pathOrInlineDv": name,
        "offset": 1,
        "sizeInBytes": len(bitmap),
        "cardinality": len(rows),
    }
    remove = {"path": add["path"], "deletionTimestamp": 1, "dataChange": True}
    _write(table, 1, [{"remove": remove}, {"add": {**add, "deletionVector": vector}}])


def rename_columns(table: Path, names: Mapping[str, str]) -> None:
    """Give columns other names than they have in the files of the first version."""
    actions = _actions(table, 0)
    for action in actions:
        if "protocol" in action:
            action["protocol"] = {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": ["columnMapping", "deletionVectors"],
                "writerFeatures": ["columnMapping", "deletionVectors"],
            }
        if "metaData" in action:
            schema = json.loads(action["metaData"]["schemaString"])
            for number, field in enumerate(schema["fields"], 1):
                field["metadata"] = {
                    "delta.columnMapping.id": number,
                    "delta.columnMapping.physicalName": field["name"],
                }
                field["name"] = names.get(field["name"], field["name"])
            action["metaData"]["schemaString"] = json.dumps(schema)
            action["metaData"]["configuration"] |= {
                "delta.columnMapping.mode": "name",
                "delta.columnMapping.maxColumnId": str(len(schema["fields"])),
            }
    _write(table, 0, actions)


def _file(table: Path, version: int) -> Path:
    return table / "_delta_log" / f"{version:020}.json"


def _actions(table: Path, version: int) -> list[dict[str, Any]]:
    return [json.loads(line) for line in _file(table, version).read_text().splitlines()]


def _write(table: Path, version: int, actions: Sequence[Mapping[str, Any]]) -> None:
    _file(table, version).write_text("\n".join(map(json.dumps, actions)))
