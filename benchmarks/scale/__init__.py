"""The cost and the limits of LUCIUS: a model of counted operations, and a simulation of the lanes."""
