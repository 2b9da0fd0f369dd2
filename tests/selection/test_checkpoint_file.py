"""Arrays kept as bytes: a change of them is noticed."""

import numpy as np
import pytest

from chaffinch.tasks.selection.checkpoint_file import sealed, unsealed

TENSORS = {"b": np.arange(6.0).reshape(2, 3)[:, ::2], "a": np.array([True, False])}
WORDS = {"what": "numbers", "state": '{"x": 1}'}


def test_they_come_back_as_they_were():
    tensors, words, is_whole = unsealed(sealed(TENSORS, WORDS))
    assert (words, is_whole) == (WORDS, True)
    assert {name: tensor.tolist() for name, tensor in tensors.items()} == {
        name: tensor.tolist() for name, tensor in TENSORS.items()
    }


def test_equal_contents_are_equal_bytes():
    words = {f"word {number}": str(number) for number in range(20)}
    backwards = dict(reversed(words.items()))
    assert sealed(TENSORS, words) == sealed(dict(reversed(TENSORS.items())), backwards)


def test_whatever_byte_is_changed_is_noticed():
    content = sealed(TENSORS, WORDS)
    for place in range(8, len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 1
        try:
            _, _, is_whole = unsealed(bytes(damaged))
        except ValueError:
            continue
        assert not is_whole


def test_what_is_none_is_refused():
    with pytest.raises(ValueError, match="header"):
        unsealed(b"no tensors")
