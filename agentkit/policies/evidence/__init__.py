"""The check that the claims of an answer occur in the run's material."""
