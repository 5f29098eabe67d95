"""SQAIR (Kosiorek, Kim, Posner, Teh; NeurIPS 2018), in the order in which it is read.

objects        what an object is, and how its box is made
networks       encoders of frames and glimpses, and the summary of a set of objects
rendering      objects into a frame: their sum
sight          what inference sees, and what it tells the objective
propagation    the objects of the last frame, in this one: posterior and prior
discovery      the objects that are new: posterior and prior
bound          the importance-weighted bound, and VIMCO
objective      what the bound consists of
noise          the random numbers of a step
sqair          the model, frame by frame
recipes        the experiments
"""
