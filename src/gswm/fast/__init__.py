"""Everything that exists only for speed. The plain path computes the same without it.

Two calls enable it: `trainee.accelerate()` for training, `replay.replay(model)` for inference
(`loading.load` calls it). Both use only the methods that a model names in `WorldModel.recurrent`,
`batched`, `halves` and `replayable`.

replay         inference that launches all kernels of a frame together
operations     a model's operations, replaced by kernels and matrix products
deferred       gradients of recurrent weights, computed at once
ahead          another process that compiles in the background
trainee        the training step: deferred, captured, compiled
rehearsal      a step on random videos, to compile or to time it
selftest       comparison of every path with plain autograd
loading        loads trained models

kernels/ has the GPU kernels, each beside its equivalent in plain torch.
"""
