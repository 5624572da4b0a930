"""The embedded offline model."""
