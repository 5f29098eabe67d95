"""What the interpreter takes, the compiler of a GPU takes too; and a machine without Triton."""

import os
import subprocess
import sys
from pathlib import Path

COMPILE = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from gswm.kernels.compose_triton import draw_backward, draw_forward
from gswm.kernels.crop_triton import crop_backward, crop_forward

box = dict(num_objects=10, size=64, glimpse=16, smallest=0.02, rows=16, columns=16)
glimpse = dict(num_objects=10, channels=3, height=64, width=64, size=16, tile=16)
for kernel, constants, warps in (
    (draw_forward, box | dict(eps=1e-5), 4),
    (draw_backward, box | dict(padded=16, precision="ieee"), 8),
    (crop_forward, glimpse, 4),
    (crop_backward, glimpse, 4),
):
    kinds = {name: "constexpr" if name in constants else "*fp32" for name in kernel.arg_names}
    source = ASTSource(kernel, signature=kinds, constexprs=constants)
    options = dict(num_warps=warps)
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    assert len(made.asm["cubin"]) > 0
    assert made.metadata.shared <= 48 * 1024, made.metadata
    print(made.metadata.name)
"""

WITHOUT = """
import sys

sys.modules["triton"] = None
import gswm.kernels.compose
import gswm.kernels.crop
"""


def test_without_triton_the_modules_are_imported() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_gpus_compiler_takes_all_kernels(tmp_path: Path) -> None:
    env = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    env["TRITON_CACHE_DIR"] = str(tmp_path)
    done = subprocess.run([sys.executable, "-c", COMPILE], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["draw_forward", "draw_backward", "crop_forward", "crop_backward"]
