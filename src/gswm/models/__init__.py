"""The models: G-SWM and those that the paper compares it with.

base           the contract of a world model
track          what a model returns: objects, frame by frame
state          the state of a model between two frames, and its edits
objects        what an object is
layers         the layers of a frame: objects, and a background
elbo           terms of the evidence lower bound that models share
scene          a state that can be edited
recipe         what an experiment consists of
registry       models and recipes by name

gswm/, op3/, scalor/, silot/, sqair/ and stove/ are each read beside their own paper.
"""
