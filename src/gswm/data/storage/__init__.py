"""Episodes in HDF5 files, in the layouts of the authors' release.

In reading order: `layouts` (the keys of a file), `hdf5` (writing and reading whole episodes),
`stored` and `frame_file` (reading windows of them, from several threads).
"""
