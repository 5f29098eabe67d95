"""The model, in the order in which the paper tells it.

rendering      §2, A.4       objects and a background into a frame
context        §3.2, A.1     the background, imagined and inferred
interaction    §3.3.1        the effect of other objects on an object
situation      §3.3.2        the effect of the background on it
propagation    §3.3, A.2     the objects of the last frame, in this one
discovery      A.3           new objects
objective      §3.4.2        the evidence lower bound
labels                       supervision by the ground-truth boxes of a world
overshoot                    training the prior on its own rollouts
noise          §3.4          the random numbers of a step
schedule       B.1           curriculum and annealing
config         B             all settings
recurrence     §3.1          propagation and discovery, frame by frame
gswm           §3.1          the model
recipes        §5, D         the experiments
"""
