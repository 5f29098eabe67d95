"""Placements: source pixels and model coordinates, and the inverse."""

from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gswm.core.errors import UserError
from gswm.data.placement import Fit, Placement, Region, as_text, parse_region

SIDES = st.integers(1, 5000)
FITS = st.sampled_from(get_args(Fit))


@st.composite
def placements(draw: st.DrawFn) -> Placement:
    width, height = draw(SIDES), draw(SIDES)
    region = None
    if draw(st.booleans()):
        left, top = draw(st.integers(0, width - 1)), draw(st.integers(0, height - 1))
        across = draw(st.integers(1, width - left))
        region = (left, top, across, draw(st.integers(1, height - top)))
    aspect = draw(st.sampled_from([1.0, 2.0, 16 / 11, 0.5]))
    size = draw(st.sampled_from([8, 64, 128]))
    return Placement.of(width, height, size, draw(FITS), region, 90, aspect)


numbers = st.floats(-2, 2, allow_subnormal=False)


@given(placements(), numbers, numbers, st.floats(0.001, 2), st.floats(0.001, 2))
def test_both_directions_are_inverse(
    placement: Placement, x: float, y: float, h: float, w: float
) -> None:
    xy, hw = np.array([x, y]), np.array([h, w])
    back = placement.to_model(*placement.to_source(xy, hw))
    np.testing.assert_allclose(back, (xy, hw), atol=1e-9)


@given(placements())
def test_the_shown_part_is_where_it_is_inside_the_frame(placement: Placement) -> None:
    left, top, across, down = placement.shown
    assert 0 <= left <= left + across <= placement.width + 1e-6
    assert 0 <= top <= top + down <= placement.height + 1e-6
    center, wh = np.array([left + across / 2, top + down / 2]), np.array([across, down])
    xy, hw = placement.to_model(center, wh)
    x, y, w, h = np.array(placement.inside) / placement.size
    np.testing.assert_allclose(xy, [2 * (x + w / 2) - 1, 2 * (y + h / 2) - 1], atol=1e-9)
    np.testing.assert_allclose(hw, [h, w], atol=1e-9)


@given(SIDES, SIDES)
def test_a_letterbox_shows_everything_without_distortion(width: int, height: int) -> None:
    placement = Placement.of(width, height, 64)
    assert placement.shown == (0, 0, width, height)
    assert max(placement.inside[2:]) == 64
    across, down = placement.inside[2:]
    assert abs(across * height - down * width) <= max(width, height)  # to a pixel of the frame


def test_a_wide_picture_has_bars_above_and_below() -> None:
    placement = Placement.of(1920, 1080, 64)
    assert placement.inside == (0, 14, 64, 36)
    center, wh = placement.to_source(np.zeros(2), np.array([0.5, 0.25]))
    np.testing.assert_allclose(center, [960, 540])
    np.testing.assert_allclose(wh, [480, 960])


def test_a_crop_shows_the_middle_square_of_what_is_seen() -> None:
    assert Placement.of(1920, 1080, 64, "crop").shown == (420, 0, 1080, 1080)
    wide = Placement.of(720, 576, 64, "crop", None, 0, 2.0)
    assert wide.shown == (216, 0, 288, 576)


@pytest.mark.parametrize("region", [None, (3, 4, 10, 20)])
def test_a_region_is_text_and_back(region: Region | None) -> None:
    assert parse_region(as_text(region)) == parse_region(region) == region


@pytest.mark.parametrize("kind", [list, tuple])
def test_a_region_may_be_any_sequence_of_integers(kind: Any) -> None:
    assert parse_region(kind([3, 4, 10, 20])) == (3, 4, 10, 20)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("0,0,0,10", "no pixels"),
        ("0,0,10,-1", "no pixels"),
        ("-1,0,10,10", "starts outside"),
        ("1,2,3", "x,y,width,height"),
        ("a,b,c,d", "x,y,width,height"),
        ("0,0,1.5,2", "x,y,width,height"),
        ((0, 0, 1.5, 2), "x,y,width,height"),
        ((0, 0), "x,y,width,height"),
    ],
)
def test_a_region_that_cannot_be_is_one_line(text: Any, said: str) -> None:
    with pytest.raises(UserError, match=said) as error:
        parse_region(text)
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize("region", [(60, 0, 10, 10), (0, 45, 10, 10), (100, 100, 5, 5)])
def test_a_region_outside_the_picture_is_refused(region: Region) -> None:
    with pytest.raises(UserError, match="outside the frame of 64 x 48"):
        Placement.of(64, 48, 32, "letterbox", region)
