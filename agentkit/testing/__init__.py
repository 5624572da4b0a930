"""Test doubles for models, for this project's tests and for its users'."""
