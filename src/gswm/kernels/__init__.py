"""Operations as single GPU kernels; each has a twin in plain torch, against which it is tested.

    mlp               three layers in one
    sampling          a bilinear sample and its slopes, for use in kernels
    compose_triton    the kernels of `draw`
    compose           draw: `paste` and `compose` in one, without a canvas for each object
    crop_triton       the kernels of `crop`
    crop              crop: `geometry.crop` in one
"""
