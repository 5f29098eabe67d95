"""The models: G-SWM and those that the paper compares it with.

config         settings that all models have
contract       the methods that training, evaluation and the studio call
base           the base class of world models: the contract, and the methods that users call
track          what a model returns: objects, frame by frame
state          the state of a model between two frames, and its edits
objects        what an object is
layers         the layers of a frame: objects, and a background
elbo           terms of the evidence lower bound that models share
scene          a state that can be edited
recipe         what an experiment consists of
posterior      models that infer by means and by samples alike
gru            models that remember objects by GRUs: the base of SILOT and SQAIR
registry       models and recipes by name

gswm/, op3/, scalor/, silot/, sqair/ and stove/ are each read beside their own paper.
"""
