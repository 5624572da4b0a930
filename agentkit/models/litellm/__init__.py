"""Requests, replies, streams and errors of litellm. Only `model.py` imports litellm, inside the first request."""
