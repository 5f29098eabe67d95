"""LPIPS compared with its definition, with random weights."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from gswm.cli import main
from gswm.core.errors import UserError
from gswm.eval.metrics import lpips
from gswm.eval.metrics.pixels import pixels

CHANNELS = {"alex": (2, 3, 4, 3, 2), "vgg": (2, 3, 2, 3, 2)}


def alex(seed: int = 0) -> tuple[nn.Sequential, dict[str, Tensor]]:
    """torchvision's layers, narrower, and a state dict as the lpips package's."""
    torch.manual_seed(seed)
    a, b, c, d, e = CHANNELS["alex"]
    net = nn.Sequential(
        *(nn.Conv2d(3, a, 11, 4, 2), nn.ReLU(), nn.MaxPool2d(3, 2)),
        *(nn.Conv2d(a, b, 5, padding=2), nn.ReLU(), nn.MaxPool2d(3, 2)),
        *(nn.Conv2d(b, c, 3, padding=1), nn.ReLU(), nn.Conv2d(c, d, 3, padding=1), nn.ReLU()),
        *(nn.Conv2d(d, e, 3, padding=1), nn.ReLU()),
    )
    return net, state(net, CHANNELS["alex"])


def vgg(seed: int = 0) -> tuple[nn.Sequential, dict[str, Tensor]]:
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    last = 3
    for stage, (width, depth) in enumerate(zip(CHANNELS["vgg"], (2, 2, 3, 3, 3), strict=True)):
        layers += [nn.MaxPool2d(2, 2)] if stage else []
        for _ in range(depth):
            layers += [nn.Conv2d(last, width, 3, padding=1), nn.ReLU()]
            last = width
    net = nn.Sequential(*layers)
    return net, state(net, CHANNELS["vgg"])


def state(net: nn.Sequential, channels: tuple[int, ...]) -> dict[str, Tensor]:
    tensors = {f"net.slice1.{name}": value for name, value in net.state_dict().items()}
    for i, width in enumerate(channels):
        tensors[f"lin{i}.model.1.weight"] = torch.rand(1, width, 1, 1)
        tensors[f"lins.{i}.model.1.weight"] = tensors[f"lin{i}.model.1.weight"]
    tensors["scaling_layer.shift"] = torch.zeros(1, 3, 1, 1)
    return tensors


TAPS = {"alex": (1, 4, 7, 9, 11), "vgg": (3, 8, 15, 22, 29)}
MADE = {"alex": alex, "vgg": vgg}


def naive(net: nn.Sequential, tensors: dict[str, Tensor], taps: tuple[int, ...], x, y) -> float:
    """Place by place and channel by channel, in Python's floats."""
    features = []
    for frame in (x, y):
        shift, scale = (-0.030, -0.088, -0.188), (0.458, 0.448, 0.450)
        now = torch.stack([(2 * frame[c] - 1 - shift[c]) / scale[c] for c in range(3)])[None]
        found = []
        for i, layer in enumerate(net):
            now = layer(now)
            if i in taps:
                found.append(now[0].detach().double().numpy())
        features.append(found)
    total = 0.0
    for stage, (f, g) in enumerate(zip(*features, strict=True)):
        worth = tensors[f"lin{stage}.model.1.weight"].flatten().tolist()
        _, height, width = f.shape
        for i, j in np.ndindex(height, width):
            lengths = [math.sqrt(sum(v * v for v in h[:, i, j].tolist())) + 1e-10 for h in (f, g)]
            for c, w in enumerate(worth):
                apart = f[c, i, j] / lengths[0] - g[c, i, j] / lengths[1]
                total += w * apart * apart / (height * width)
    return total


def frames(seed: int, *shape: int) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def write(tensors: dict[str, torch.Tensor], path: Path) -> None:
    save_file({name: tensor.clone() for name, tensor in tensors.items()}, path)


@pytest.mark.parametrize("kind", ["alex", "vgg"])
def test_lpips_follows_its_definition(kind: str, tmp_path: Path) -> None:
    net, tensors = MADE[kind]()
    path = tmp_path / "weights.safetensors"
    write(tensors, path)
    x, y = frames(0, 2, 2, 3, 40, 36), frames(1, 2, 2, 3, 40, 36)
    apart = lpips.read(path).apart(x, y)
    assert apart.shape == (2, 2)
    for row, step in np.ndindex(2, 2):
        expected = naive(net, tensors, TAPS[kind], x[row, step], y[row, step])
        assert apart[row, step].item() == pytest.approx(expected, rel=1e-4)


def test_pixels_have_lpips_if_there_are_weights(tmp_path: Path) -> None:
    write(alex()[1], tmp_path / "alex.safetensors")
    one = frames(0, 1, 4, 3, 64, 64)
    network = lpips.read(tmp_path / "alex.safetensors")
    measured = pixels(one, one.flip(-1), network)
    assert set(measured.scores()) == {"psnr", "ssim", "lpips"}
    assert len(measured.curves()["lpips"]) == 4
    assert pixels(one, one, network).scores()["lpips"] == 0
    assert measured.scores()["lpips"] > 0
    assert set(pixels(one, one).scores()) == {"psnr", "ssim"}


def test_names_of_torchvision_are_taken_too(tmp_path: Path) -> None:
    _, tensors = alex()
    named = {k.replace("net.slice1.", "features."): v for k, v in tensors.items()}
    write(tensors, tmp_path / "a.safetensors")
    write(named, tmp_path / "b.safetensors")
    x, y = frames(0, 1, 3, 32, 32), frames(1, 1, 3, 32, 32)
    values = [
        lpips.read(tmp_path / name).apart(x, y) for name in ("a.safetensors", "b.safetensors")
    ]
    assert torch.equal(*values)


def test_a_file_that_is_no_lpips_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, tensors = alex()
    del tensors["lin4.model.1.weight"]
    write(tensors, tmp_path / "part.safetensors")
    _, whole = alex()
    write({k: v for k, v in whole.items() if "bias" not in k}, tmp_path / "unbiased.safetensors")
    (tmp_path / "text.safetensors").write_text("hello")
    for name, said in (
        ("none.safetensors", "there is no file"),
        ("part.safetensors", "4 layers"),
        ("unbiased.safetensors", "does not contain LPIPS weights"),
        ("text.safetensors", "is not a safetensors file"),
    ):
        with pytest.raises(UserError, match=said):
            lpips.read(tmp_path / name)
        args = ["eval", "--baseline", "stay", "--world", "occlusion", "--episodes", "1"]
        assert main([*args, "--lpips", str(tmp_path / name)]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1


def test_frames_that_are_too_small_are_refused(tmp_path: Path) -> None:
    write(alex()[1], tmp_path / "alex.safetensors")
    small = frames(0, 1, 3, 16, 16)
    with pytest.raises(UserError, match="at least 32"):
        lpips.read(tmp_path / "alex.safetensors").apart(small, small)
