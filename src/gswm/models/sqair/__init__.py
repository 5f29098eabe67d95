"""SQAIR (Kosiorek, Kim, Posner, Teh; NeurIPS 2018), in the order in which it is read.

objects        the representation of objects and their boxes
networks       encoders of frames and glimpses, and the summary of a set of objects
rendering      objects into a frame: their sum
sight          the inputs of inference, and the evidence for the objective
propagation    the objects of the last frame, in this one: posterior and prior
discovery      new objects: posterior and prior
bound          the importance-weighted bound, and VIMCO
objective      the terms of the bound
noise          the random numbers of a step
sqair          the model, frame by frame
recipes        the experiments
"""
