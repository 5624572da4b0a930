"""Conversations that outlive a run or a process: sessions, the journal, recordings.

Nothing here knows agents; policies and views lie below.
"""
