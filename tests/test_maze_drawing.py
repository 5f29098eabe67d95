"""Drawing mazes: the same pictures as by the general renderer."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gswm.data.worlds.maze_drawing import draw_mazes
from gswm.data.worlds.sprites import draw


@given(st.integers(0, 2**32 - 1), st.sampled_from([(7, 64), (5, 40), (3, 33), (9, 50)]))
def test_mazes_are_drawn_as_sprites_on_a_background(seed: int, size: tuple[int, int]) -> None:
    side, image_size = size
    rng = torch.Generator().manual_seed(seed)
    grid = torch.randint(0, 2, (2, side, side), generator=rng)
    cells = torch.randint(0, side, (2, 4, 3, 2), generator=rng)
    cells[:, 2] = (cells[:, 1] + torch.tensor([1, 0])).clamp(max=side - 1)  # some of them overlap
    cells[:, 3, 1] = cells[:, 3, 0]
    colors = torch.rand(2, 3, 3, generator=rng, dtype=torch.float64)
    present = torch.tensor([[True, True, True], [True, True, False]])
    drawn = draw_mazes(grid, cells, colors, present, image_size)

    for e in range(2):
        for t in range(7):
            at = (cells[e, t // 2] + cells[e, (t + 1) // 2] + 1) * (image_size / side / 2)
            cell = ((torch.arange(image_size) + 0.5) * side / image_size).long()
            white = 1.0 - grid[e][cell][:, cell].float()
            expected = draw(
                at.flip(-1)[None].double(),
                present[e, None].double() * image_size / side / 2,
                colors[e, None],
                image_size,
                white[None, :, :, None].repeat(1, 1, 1, 3),
            )
            assert (drawn[e, t].int() - expected[0].int()).abs().max() <= 1


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_number_of_threads_changes_nothing(threads: int) -> None:
    rng = torch.Generator().manual_seed(0)
    args = (
        torch.randint(0, 2, (5, 7, 7), generator=rng),
        torch.randint(0, 7, (5, 3, 2, 2), generator=rng),
        torch.rand(5, 2, 3, generator=rng, dtype=torch.float64),
        torch.ones(5, 2, dtype=torch.bool),
    )
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        expected = draw_mazes(*args, 64)
        torch.set_num_threads(threads)
        assert torch.equal(draw_mazes(*args, 64), expected)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
