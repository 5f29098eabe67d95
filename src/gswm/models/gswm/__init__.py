"""The model, in the order in which the paper tells it.

rendering      §2, A.4       objects and a background into a frame
context        §3.2, A.1     the background, imagined and inferred
interaction    §3.3.1        what other objects mean to an object
situation      §3.3.2        what the background means to it
propagation    §3.3, A.2     the objects of the last frame, in this one
discovery      A.3           the objects that are new
objective      §3.4.2        the evidence lower bound
labels                       boxes, taught by a world that knows them
overshoot                    the prior, judged by its rollouts
noise          §3.4          all that is random in a step
schedule       B.1           curriculum and annealing
config         B             all settings
gswm           §3.1          all of it, frame by frame
recipes        §5, D         the experiments
"""
