"""The arguments of a tool call: parsed, validated, repaired where the repair is certain, and explained to the model."""
