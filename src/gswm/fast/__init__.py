"""Everything that exists only for speed. The plain path computes the same without it.

Two calls switch it on: `trainee.accelerate()` for training, `replay.replay(model)` for inference
(`loading.load` calls it). Both use only what a model names in `WorldModel.recurrent`, `batched`,
`halves` and `replayable`.

replay         inference that starts all kernels of a frame together
operations     a model's operations, replaced by kernels and matrix products
deferred       gradients of recurrent weights, in one go
ahead          another process that compiles meanwhile
trainee        the training step: deferred, captured, compiled
rehearsal      a step on random videos, to compile or to time it
selftest       every path against plain autograd
loading        trained models, ready to use

kernels/ has the GPU kernels, each beside its twin in plain torch.
"""
