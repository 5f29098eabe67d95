"""Operations as single GPU kernels; each has a twin in plain torch, against which it is tested.

mlp: three layers in one. compose: `paste` and `compose` in one, without a canvas for each object.
crop: `geometry.crop` in one. The last two import Triton at their first call; their kernels are in
compose_triton and crop_triton, and what both use in sampling.
"""
