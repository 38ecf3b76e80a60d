"""Recorded episodes in HDF5 files that other tools read: Minari's layout and robomimic's."""
