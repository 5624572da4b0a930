"""How the tools of AgentDojo are declared, and why: what changes something, and who may have written a result."""

WRITES = {
    "workspace": """send_email delete_email create_calendar_event cancel_calendar_event reschedule_calendar_event
        add_calendar_event_participants append_to_file create_file delete_file share_file""",
    "travel": "create_calendar_event cancel_calendar_event reserve_hotel reserve_car_rental reserve_restaurant send_email",
    "banking": "send_money schedule_transaction update_scheduled_transaction update_password update_user_info",
    "slack": "add_user_to_channel send_direct_message send_channel_message invite_user_to_slack remove_user_from_slack post_webpage",
}
"""Tools that change something."""
DANGER = "delete_file delete_email cancel_calendar_event remove_user_from_slack"
"""Tools that destroy something: by the rule of the guide such a call always waits, for attacks and harmless tasks alike."""
EGRESS = {"slack": "get_webpage"}
"""A read that sends its argument to any server of the web."""
LABELLINGS = ("strict", "generous")
"""The rule of the guide is "strict": a field is trusted only if an attacker cannot fill it."""
UNTRUSTED = {
    # Mails, invitations and shared files are written by others, and so is what a search in them finds.  Contacts are
    # below: AgentDojo makes their names of the addresses in mails.
    "workspace": """get_unread_emails get_sent_emails get_received_emails get_draft_emails search_emails search_calendar_events
        get_day_calendar_events add_calendar_event_participants reschedule_calendar_event search_files_by_filename
        search_files list_files get_file_by_id delete_file append_to_file""",
    # Anyone writes reviews; names, prices and addresses come from the travel company's own catalogue.
    "travel": """get_rating_reviews_for_hotels get_rating_reviews_for_restaurants get_rating_reviews_for_car_rental
        search_calendar_events get_day_calendar_events""",
    # Whoever sends money writes its subject; files are bills and letters of others.
    "banking": "get_most_recent_transactions read_file",
    # Messages, pages, and the names that others give to shared channels.
    "slack": "get_webpage read_inbox read_channel_messages get_channels",
}
"""Tools whose results contain text of people other than the user.  The user's own data and the clock are trusted."""
STRICTLY_UNTRUSTED = {"slack": "get_users_in_channel"}
"""With the strict labels, these too: members choose their names."""
_IDS = {"id_": "trusted"}
_SENDERS = {"sender": "trusted"}
_ADDRESSES = {"email": "trusted"}
_WORKSPACE = {
    # The mail server, the calendar and the drive assign ids; whoever writes a mail or shares a file cannot choose one.
    # An address in the user's address book is one of a contact, whoever asked for it.
    "workspace": dict.fromkeys(UNTRUSTED["workspace"].split(), _IDS)
    | {"create_file": _IDS}
    | dict.fromkeys(["search_contacts_by_name", "search_contacts_by_email"], _ADDRESSES),
}
TRUSTED_FIELDS = {
    # The bank assigns the id and the day of a payment.  Who sends money is its sender, chooses the amount and writes the
    # subject; who writes a message is its sender.
    "strict": _WORKSPACE | {"banking": {"get_most_recent_transactions": dict.fromkeys(["id", "date"], "trusted")}},
    # The bank itself tells the accounts; Slack itself tells who sent a message; and a channel is listed by its whole
    # name: a name that contains instructions is trusted as a name, its parts are not.
    "generous": _WORKSPACE
    | {
        "banking": {
            "get_most_recent_transactions": dict.fromkeys(["id", "sender", "recipient", "amount", "date"], "trusted")
        },
        "slack": {"read_channel_messages": _SENDERS, "read_inbox": _SENDERS, "get_channels": {"": "trusted"}},
    },
}
"""Fields of untrusted results that their writers do not control."""
DIRECTORIES = {"workspace": ("search_contacts_by_email", "query")}
"""Where a model looks up an address that it cannot read: the tool, and its parameter."""


def list_untrusted(suite: str, labelling: str) -> list[str]:
    """Return the tools of a suite whose results contain text of other people."""
    more = STRICTLY_UNTRUSTED.get(suite, "") if labelling == "strict" else ""
    return [*UNTRUSTED[suite].split(), *more.split()]
