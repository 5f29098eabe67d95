"""OP3 (Veerapaneni et al., CoRL 2019), in the order in which it is read.

slots          the latents of an entity, and the distribution of its random part
decoder        latents into colors and mask logits, by spatial broadcast
mixture        the likelihood of a frame under K entities, and its gradients
refinement     IODINE's iterative inference: one step towards a better posterior
dynamics       entities one frame on, by pairwise interaction
masks          objects and boxes from masks
schedule       the order of refinements and predictions, and the curriculum
noise          the random numbers of a training step
op3            the model
recipes        the experiments
"""
