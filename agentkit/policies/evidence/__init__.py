"""What checks of an answer work with: the material of the run, and the claims that an answer makes."""
