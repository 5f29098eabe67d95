"""SCALOR (Jiang, Janghorbani, de Melo, Ahn; ICLR 2020), in the order in which it is read.

networks       encoders, decoders, and the recurrent features of the image
objects        what an object is, how boxes are made, who keeps a slot
rendering      what objects look like, and objects into a frame
background     what is behind them
propagation    the objects of the last frame, in this one
discovery      the objects that are new: propose, and reject
objective      the evidence lower bound, a mean over time
observed       what the prior learns from, where it learns alone
noise          all that is random in a step
schedule       detached steps, temperature, and what else changes with the step
scalor         all of it, frame by frame
recipes        the experiments
"""
