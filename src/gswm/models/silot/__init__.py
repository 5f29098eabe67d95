"""SILOT (Crawford, Pineau; AAAI 2020), in the order in which it is read.

networks       the features of the image, and the encoder and decoder of an object
objects        what an object is, and how its box is made
rendering      objects into a frame
conditioning   what objects say to cells, and to each other, weighted by a Gaussian kernel
discovery      the objects that are new, one in each cell
propagation    the objects of the last frame, in this one: posterior and learned prior
objective      SPAIR's prior of the count, fixed priors, the learned prior, the likelihood
observed       the tracks from which the learned prior learns alone
noise          the random numbers of a step
schedule       curriculum, training wheels, the count prior, and when the learned prior learns alone
silot          the model, frame by frame
recipes        the experiments

Selection, K of propagated and discovered objects, is `gswm.models.objects.select`.
"""
