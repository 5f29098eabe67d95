"""The models: G-SWM and those that the paper compares it with.

config         settings that all models have
contract       the methods that training, evaluation and the studio call
base           the base class of world models: the contract, and the methods that users call
track          the output of a model: objects, frame by frame
state          the state of a model between two frames, and its edits
objects        the representation of objects
extents        the drawn part of a box
layers         the layers of a frame: objects, and a background
elbo           terms of the evidence lower bound that models share
scene          a state that can be edited
recipe         the settings of an experiment
posterior      models with one method for posterior means and samples
gru            models with GRUs per object: the base of SILOT and SQAIR
registry       models and recipes by name

gswm/, op3/, scalor/, silot/, sqair/ and stove/ each implement one paper.
"""
