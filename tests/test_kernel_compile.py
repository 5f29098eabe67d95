"""Kernels compile for a GPU as they run in the interpreter; a machine without Triton."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMPILE = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from gswm.fast.kernels import encoder, mlp, pairs, select
from gswm.fast.kernels.compose_triton import draw_backward, draw_forward
from gswm.fast.kernels.crop_triton import crop_backward, crop_forward
from gswm.fast.kernels.encoder_triton import encoder_backward, encoder_forward
from gswm.fast.kernels.pairs_triton import pairs_backward, pairs_forward
from gswm.fast.kernels.select_triton import select_forward

box = dict(num_objects=10, size=64, glimpse=16, smallest=0.02, rows=16, columns=16, summed=False)
scalor = box | dict(num_objects=26, glimpse=32, summed=True)
glimpse = dict(num_objects=10, channels=3, height=64, width=64, size=16, tile=16)
layers = dict(num_in=70, num_hidden=24, num_out=40) | mlp.program(24, 3)
two_layers = dict(num_in=70, num_hidden=24, num_out=2) | mlp.program(24, 2)
for kernel, given in (
    (draw_forward, box | dict(eps=1e-5)),
    (draw_backward, box | dict(padded=16, precision="ieee", num_warps=8)),
    (draw_forward, scalor | dict(eps=1e-15)),
    (draw_backward, scalor | dict(padded=32, precision="ieee", num_warps=8)),
    (crop_forward, glimpse),
    (crop_backward, glimpse),
    (mlp.forward_kernel, layers),
    (mlp.backward_kernel, layers),
    (mlp.forward_kernel, two_layers),
    (mlp.backward_kernel, two_layers),
    (encoder_forward, encoder.program([3, 16, 16, 32, 64, 24])),
    (encoder_backward, encoder.program([3, 16, 16, 32, 64, 24])),
    (pairs_forward, pairs.program(10, 16)),
    (pairs_backward, pairs.program(10, 16)),
    (select_forward, select.program(10, 16, 710)),
):
    constants = {name: given[name] for name in kernel.arg_names if name in given}
    options = {name: value for name, value in given.items() if name not in constants}
    kinds = dict.fromkeys(kernel.arg_names, "*fp32") | dict.fromkeys(constants, "constexpr")
    kinds |= {name: "i32" for name in ("batch", "num_rows") if name in kinds}
    whole = ("ids", "born", "ids_out", "born_out", "slot_out")
    kinds |= {name: "*i64" for name in whole if name in kinds}
    source = ASTSource(kernel, signature=kinds, constexprs=constants)
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    assert len(made.asm["cubin"]) > 0
    assert made.metadata.shared <= 48 * 1024, made.metadata
    print(made.metadata.name)
"""

WITHOUT = """
import sys

sys.modules["triton"] = None
import gswm.fast.kernels.compose
import gswm.fast.kernels.crop
import gswm.fast.kernels.encoder
import gswm.fast.kernels.os_rnn
import gswm.fast.kernels.select
"""


def test_without_triton_the_modules_are_imported() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_gpus_compiler_takes_all_kernels(tmp_path: Path) -> None:
    env = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    env["TRITON_CACHE_DIR"] = str(tmp_path)
    done = subprocess.run([sys.executable, "-c", COMPILE], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    names = [*2 * ["draw_forward", "draw_backward"], "crop_forward", "crop_backward"]
    names += [*2 * ["forward_kernel", "backward_kernel"], "encoder_forward", "encoder_backward"]
    names += ["pairs_forward", "pairs_backward", "select_forward"]
    assert done.stdout.split() == names
