"""The extensions of this package, one per file: each is one object that an agent is given."""
