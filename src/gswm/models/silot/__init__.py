"""SILOT (Crawford, Pineau; AAAI 2020), in the order in which it is read.

networks       the features of the image, and the encoder and decoder of an object
objects        the representation of objects and their boxes
rendering      objects into a frame
conditioning   messages from objects to cells and to each other, weighted by a Gaussian kernel
discovery      new objects, at most one in each cell
propagation    the objects of the last frame, in this one: posterior and learned prior
objective      SPAIR's prior of the count, fixed priors, the learned prior, the likelihood
observed       tracks for the stage in which only the learned prior learns
noise          the random numbers of a step
schedule       curriculum, training wheels, the count prior, and the stage of the learned prior
silot          the model, frame by frame
recipes        the experiments

Selection, K of propagated and discovered objects, is `gswm.models.objects.select`.
"""
