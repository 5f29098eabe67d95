"""The models that G-SWM is compared with, each a folder that reads beside its own paper."""
