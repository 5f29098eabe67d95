"""SCALOR (Jiang, Janghorbani, de Melo, Ahn; ICLR 2020), in the order in which it is read.

networks       encoders, decoders, and the recurrent features of the image
objects        the representation of objects, their boxes and slots
rendering      the appearance of objects, and their composition into a frame
background     the background
propagation    the objects of the last frame, in this one
discovery      new objects: proposals and their rejection
objective      the evidence lower bound, a mean over time
observed       tracks for the stage in which only the prior learns
noise          the random numbers of a step
schedule       detached steps, temperature, and other settings that change with the step
scalor         the model, frame by frame
recipes        the experiments
"""
