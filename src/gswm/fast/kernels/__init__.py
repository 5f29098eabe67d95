"""Operations as single GPU kernels; each has a twin in plain torch, against which it is tested.

mlp: three layers in one. os_rnn: both object-state RNNs, as two products and the kernel of pairs.
compose: `paste` and `compose` in one, without a canvas for each object. crop: `geometry.crop` in
one. encoder: `networks.Encoder` in one. select: `objects.select` in one. All but mlp import Triton
at their first call; their kernels are in modules of their own. What kernels share is in products,
tiles and sampling.
"""
