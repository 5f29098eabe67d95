"""Episodes in HDF5 files, in the layouts of the authors' release.

In reading order: `layouts` (which keys a file has), `hdf5` (writing and reading whole episodes),
`stored` and `frame_file` (reading windows of them, from several threads).
"""
