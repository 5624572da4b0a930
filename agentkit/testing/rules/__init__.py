"""What providers demand of a request, written down from their documentation and their error messages.

Nothing here is shared with the code that writes requests: these rules are there to find its mistakes.
"""
