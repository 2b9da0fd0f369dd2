"""How much memory a network of PEFS takes, which is asked before it is made."""

import pytest

from chaffinch.tasks.selection.pefs.network import bytes_to_train, check_memory


def test_weights_count_with_their_gradients_and_moments_and_units_row_by_row():
    of_network, _ = bytes_to_train((10, 65_536, 65_536, 2), 256)
    assert of_network == pytest.approx(5 * 4 * 65_536**2, rel=0.01)
    _, of_batch = bytes_to_train((4, 8, 2), 100_000)
    assert of_batch == 4 * 100_000 * (4 + 4 * 10)


@pytest.mark.parametrize(
    ("sizes", "n_rows", "remedy"),
    [
        ((10, 2000, 1000, 2), 256, r"2000, 1000 units take .*; give smaller hidden_layer_sizes$"),
        ((10, 20, 2), 10**6, r"1000000 rows .*; give fewer samples, or a smaller batch_size$"),
    ],
)
def test_what_takes_all_that_is_free_is_let_through_and_one_byte_less_is_refused(
    sizes, n_rows, remedy
):
    needed = sum(bytes_to_train(sizes, n_rows))
    check_memory(sizes, n_rows, needed)
    with pytest.raises(ValueError, match=remedy):
        check_memory(sizes, n_rows, needed - 1)
