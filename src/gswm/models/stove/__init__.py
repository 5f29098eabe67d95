"""STOVE (Kossen et al., ICLR 2020), in the order in which one understands it.

spn          a density of images that can be marginalized: random sum-product networks
supair       how likely a frame is, given where its objects are, and where they may be
matching     which object of a frame is which of the frame before
dynamics     how objects move: a graph network, in the prior and in the posterior
scene        what carries on after a frame, and its edits
config       all settings
stove        all of it, frame by frame
recipes      the experiments
"""
