"""What LUCIUS costs and where it ends: a model of counted operations, and a simulation of the lanes."""
