"""Between agentkit's values and litellm's: requests, replies, streams and errors, without importing litellm."""
