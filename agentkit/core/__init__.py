"""What every room speaks: messages, errors, events, effects, context, masking, threads.

Nothing here imports from another room.
"""
