"""What becomes of an effect: one policy a file, each a function from flow to flow."""
