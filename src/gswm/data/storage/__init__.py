"""Episodes in HDF5 files, in the layouts of the authors' release.

In reading order: `layouts` (the keys of a file), `writer` (a new file), `hdf5` (reading whole
episodes), `stored` and `frame_file` (reading windows of them, from several threads), and `errors`
(those of HDF5, in words).
"""
