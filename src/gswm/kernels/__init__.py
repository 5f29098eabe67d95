"""Operations as single GPU kernels; each has a twin in plain torch, against which it is tested."""
