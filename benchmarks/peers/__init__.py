"""The same 3-step job on LUCIUS and on its peers, side by side in one run."""
