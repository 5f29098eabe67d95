"""STOVE (Kossen et al., ICLR 2020), in the order in which one understands it.

spn          a density of images that can be marginalized: random sum-product networks
images       SuPAIR: how likely a frame is, given where its objects are
encoder      SuPAIR: where the objects of a frame may be
matching     which object of a frame is which of the frame before
dynamics     how objects move: a graph network, in the prior and in the posterior
scene        what carries on after a frame, and its edits
stove        all of it, frame by frame
"""
