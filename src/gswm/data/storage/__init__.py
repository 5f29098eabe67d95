"""Episodes in HDF5 files, in the layouts of the authors' release."""
