"""STOVE (Kossen et al., ICLR 2020), in the order in which it is read.

spn          a density of images that can be marginalized: random sum-product networks
supair       the likelihood of a frame given its objects' boxes, and the encoder of boxes
matching     the assignment of objects between consecutive frames
dynamics     the motion of objects: a graph network, in the prior and in the posterior
scene        the state after a frame, and its edits
config       all settings
stove        the model, frame by frame
recipes      the experiments
"""
