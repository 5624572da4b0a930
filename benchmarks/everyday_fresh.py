"""A second held-out set of everyday sentences, in the form of `everyday_rows.py`; read by `everyday.py`.

Each domain has six lines.  The first three are the read half: their outcomes were looked at while the offline model was
changed.  Of the last three only totals were looked at.
"""

# ruff: noqa: ARG001 (the tools have fixed results)

import datetime
from typing import Annotated, Literal

from everyday_rows import Domain

from agentkit import tool


@tool(effect="write")
def dim_lamp(lamp: str, level: int) -> str:
    """Dim a lamp.

    Args:
        lamp: Name of the lamp, e.g. "desk" or "hallway".
        level: Brightness from 0 to 100.
    """
    return "ok"


@tool(effect="write")
def switch_plug(plug: str, state: Literal["on", "off"]) -> str:
    """Switch a smart plug on or off."""
    return "ok"


@tool(effect="write")
def close_blinds(room: str) -> str:
    """Close the blinds of a room."""
    return "ok"


def book_meeting(
    title: str, day: datetime.date, start: str, minutes: int = 30, attendees: list[str] | None = None
) -> str:
    """Book a meeting.

    Args:
        title: The title.
        day: The day.
        start: Start time, HH:MM.
        minutes: Length in minutes.
        attendees: Who takes part.
    """
    return "ok"


def move_meeting(meeting_id: str, start: str) -> str:
    """Move a meeting to another time.

    Args:
        meeting_id: Id of the meeting, e.g. "M-17".
        start: The new start time, HH:MM.
    """
    return "ok"


def cancel_meeting(meeting_id: str, notify: bool = True) -> str:
    """Cancel a meeting.

    Args:
        meeting_id: Id of the meeting, e.g. "M-17".
        notify: Whether the attendees are told.
    """
    return "ok"


def send_mail(to: str, subject: str, body: str, cc: str | None = None) -> str:
    """Send an e-mail."""
    return "ok"


def forward_mail(mail_id: int, to: str) -> str:
    """Forward an e-mail to somebody."""
    return "ok"


@tool(effect="read")
def search_mail(query: str, unread_only: bool = False) -> list[str]:
    """Search the mailbox.

    Args:
        query: What to search for.
        unread_only: Whether only unread mails are found.
    """
    return []


def create_issue(title: str, priority: Literal["low", "medium", "high"] = "medium", assignee: str | None = None) -> str:
    """Create an issue in the tracker."""
    return "ok"


def close_issue(issue: str, reason: Literal["done", "duplicate", "wontfix"] = "done") -> str:
    """Close an issue.

    Args:
        issue: Key of the issue, e.g. "OPS-12".
        reason: Why it is closed.
    """
    return "ok"


def comment_issue(issue: str, text: str) -> str:
    """Add a comment to an issue.

    Args:
        issue: Key of the issue, e.g. "OPS-12".
        text: The comment.
    """
    return "ok"


def create_branch(name: str, base: str = "main") -> str:
    """Create a git branch.

    Args:
        name: Name of the new branch.
        base: The branch it starts from.
    """
    return "ok"


def delete_branch(name: str, remote: bool = False) -> str:
    """Delete a git branch.

    Args:
        name: Name of the branch.
        remote: Whether it is also deleted on the remote.
    """
    return "ok"


def push(branch: str, force: bool = False) -> str:
    """Push a branch to the remote."""
    return "ok"


@tool
def release(service: str, version: str, environment: Literal["dev", "staging", "production"]) -> str:
    """Release a version of a service to an environment."""
    return "ok"


@tool
def rollback(service: str, version: str | None = None) -> str:
    """Roll a service back, to a given version or to the previous one."""
    return "ok"


@tool
def scale_service(service: str, replicas: int) -> str:
    """Scale a service to a number of replicas."""
    return "ok"


def issue_refund(order_id: str, amount: float | None = None, reason: str | None = None) -> str:
    """Refund an order.

    Args:
        order_id: Id of the order.
        amount: The amount in euros; the whole order when left out.
        reason: Why it is refunded.
    """
    return "ok"


@tool(effect="read")
def order_status(order_id: str) -> str:
    """Look up the status of an order."""
    return "shipped"


def set_stock(sku: str, quantity: int) -> str:
    """Set the stock of an article."""
    return "ok"


def reserve_items(sku: str, quantity: int, customer: str) -> str:
    """Reserve items of an article for a customer.

    Args:
        sku: The article, e.g. "SKU-1001".
        quantity: How many.
        customer: Name of the customer.
    """
    return "ok"


@tool(effect="read")
def stock_level(sku: str) -> int:
    """Return how many pieces of an article are in stock."""
    return 4


def rename_file(old: str, new: str) -> str:
    """Rename a file."""
    return "ok"


def copy_file(source: str, target: str, overwrite: bool = False) -> str:
    """Copy a file."""
    return "ok"


@tool(effect="danger")
def delete_file(path: str) -> str:
    """Delete a file."""
    return "ok"


@tool(effect="write")
def add_note(text: str, tags: list[str] | None = None) -> str:
    """Save a note."""
    return "ok"


@tool(effect="read")
def find_notes(tag: str) -> list[str]:
    """Find the notes that have a tag."""
    return []


def play_song(title: str, artist: str | None = None) -> str:
    """Play a song."""
    return "ok"


def set_volume(percent: int) -> str:
    """Set the volume of the player."""
    return "ok"


def pause_music() -> str:
    """Pause the music."""
    return "ok"


@tool(effect="read")
def find_trains(origin: str, destination: str, day: datetime.date) -> list[str]:
    """Find trains between two stations.

    Args:
        origin: Station of departure.
        destination: Station of arrival.
        day: Day of the journey.
    """
    return []


@tool(effect="write")
def book_train(origin: str, destination: str, day: datetime.date, seats: int = 1, first_class: bool = False) -> str:
    """Book a train."""
    return "ok"


def send_money(to: str, amount: float, currency: Literal["EUR", "USD", "GBP"] = "EUR", note: str | None = None) -> str:
    """Send money to somebody."""
    return "ok"


@tool(effect="read")
def account_balance(account: Literal["checking", "savings"]) -> float:
    """Return the balance of an account."""
    return 12.5


def block_card(last_digits: str) -> str:
    """Block a card.

    Args:
        last_digits: The last four digits of the card.
    """
    return "ok"


@tool(effect="read")
def convert_units(value: float, from_unit: str, to_unit: str) -> float:
    """Convert a value from one unit to another."""
    return 1.0


@tool(effect="read")
def percent_of(percent: float, number: float) -> float:
    """Return a percentage of a number."""
    return 1.0


def multiply(a: float, b: float) -> float:
    """Multiply two numbers."""
    return a * b


def divide(dividend: float, divisor: float) -> float:
    """Divide one number by another."""
    return dividend / divisor


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effect="read")
def translate(text: str, language: str) -> str:
    """Translate a text into a language."""
    return "ok"


def set_timer(minutes: int, label: str | None = None) -> str:
    """Start a timer."""
    return "ok"


def remind(text: str, day: datetime.date, time: str = "09:00") -> str:
    """Set a reminder.

    Args:
        text: What to be reminded of.
        day: The day.
        time: Time of day, HH:MM.
    """
    return "ok"


def cancel_timer(label: str) -> str:
    """Cancel a running timer."""
    return "ok"


def add_contact(name: str, phone: str | None = None, email: str | None = None) -> str:
    """Add a contact to the address book."""
    return "ok"


@tool(effect="read")
def find_contact(name: str) -> str:
    """Find a contact in the address book."""
    return "ok"


def request_leave(
    start: datetime.date, end: datetime.date, kind: Literal["vacation", "sick", "unpaid"] = "vacation"
) -> str:
    """Request leave.

    Args:
        start: First day.
        end: Last day.
        kind: Kind of leave.
    """
    return "ok"


@tool(effect="read")
def leave_balance(employee: str) -> int:
    """Return how many days of leave an employee has left."""
    return 12


@tool(effect="read")
def count_rows(table: str) -> int:
    """Count the rows of a table."""
    return 3


def drop_table(table: str) -> str:
    """Drop a table of the database."""
    return "ok"


def backup_database(name: str, compress: bool = False) -> str:
    """Back up a database."""
    return "ok"


def restart_device(device_id: str) -> str:
    """Restart a device."""
    return "ok"


def set_interval(device_id: str, seconds: int) -> str:
    """Set how often a device reports.

    Args:
        device_id: Id of the device, e.g. "sensor-3".
        seconds: Seconds between two reports.
    """
    return "ok"


@tool(effect="read")
def read_sensor(device_id: str) -> float:
    """Read the value of a sensor."""
    return 1.5


@tool(effect="read")
def get_weather(city: str, unit: Literal["celsius", "fahrenheit"] = "celsius") -> str:
    """Get the weather of a city."""
    return "sunny"


def order_pizza(size: Literal["small", "medium", "large"], toppings: list[str], quantity: int = 1) -> str:
    """Order a pizza.

    Args:
        size: The size.
        toppings: The toppings.
        quantity: How many.
    """
    return "ok"


def add_todo(task: str, due: datetime.date | None = None) -> str:
    """Add a task to the to-do list."""
    return "ok"


def complete_todo(task_id: int) -> str:
    """Mark a task of the to-do list as done."""
    return "ok"


def post_message(channel: str, text: str) -> str:
    """Post a message to a chat channel."""
    return "ok"


def invite_user(user: str, channel: str, guest: bool = False) -> str:
    """Invite a user to a chat channel."""
    return "ok"


def create_user(username: str, email: str, role: Literal["viewer", "editor", "admin"] = "viewer") -> str:
    """Create a user account."""
    return "ok"


def deactivate_user(username: str) -> str:
    """Deactivate a user account."""
    return "ok"


def set_role(username: str, role: Literal["viewer", "editor", "admin"]) -> str:
    """Give a user another role."""
    return "ok"


def apply_discount(cart: str, percent: float) -> str:
    """Give a discount on a cart."""
    return "ok"


def add_to_cart(product: str, quantity: int = 1, gift_wrap: bool = False) -> str:
    """Put a product into the cart."""
    return "ok"


def checkout(cart: str, express: bool = False) -> str:
    """Check out a cart."""
    return "ok"


@tool(effect="read")
def tail_log(service: str, lines: int = 20, level: Literal["info", "warning", "error"] | None = None) -> str:
    """Show the last lines of the log of a service."""
    return "ok"


def restart_service(service: str) -> str:
    """Restart a service."""
    return "ok"


def silence_alert(alert: str, hours: int = 1) -> str:
    """Silence an alert for some hours."""
    return "ok"


def book_table(
    restaurant: str,
    guests: int,
    day: datetime.date,
    time: Annotated[str, "Time of day, HH:MM"],
    outside: bool = False,
) -> str:
    """Book a table in a restaurant."""
    return "ok"


@tool(effect="read")
def exchange_rate(base: str, quote: str) -> float:
    """Return the exchange rate between two currencies, as ISO codes."""
    return 1.1


@tool(effect="read")
def convert_currency(amount: float, source: str, target: str) -> float:
    """Convert an amount of money between two currencies, as ISO codes."""
    return 1.1


def log_hours(project: str, hours: float, day: datetime.date | None = None) -> str:
    """Log working hours on a project."""
    return "ok"


def approve_invoice(number: str, amount: float | None = None) -> str:
    """Approve an invoice.

    Args:
        number: Number of the invoice, e.g. "INV-2041".
        amount: The approved amount; the whole invoice when left out.
    """
    return "ok"


def charge_car(percent: int = 80) -> str:
    """Charge the car up to a level."""
    return "ok"


def lock_car(doors: Literal["all", "driver", "trunk"] = "all") -> str:
    """Lock the car."""
    return "ok"


FRESH = {
    "lamps": Domain(
        [dim_lamp, switch_plug, close_blinds],
        """
Dim the desk lamp to 40 => dim_lamp(lamp="desk", level=40) | dim_lamp(lamp="desk lamp", level=40)
Close the blinds in the kitchen but not in the bedroom => close_blinds(room="kitchen")
turn the coffee machine plug off => switch_plug(plug="coffee machine", state="off") | switch_plug(plug="coffee machine plug", state="off")
Please dim the hallway lamp =>
Close the blinds of the bedroom and dim the desk lamp to 10 => close_blinds(room="bedroom"); dim_lamp(lamp="desk", level=10) | close_blinds(room="bedroom"); dim_lamp(lamp="desk lamp", level=10)
Switch the heater plug on in 20 minutes =>
""",
    ),
    "meetings": Domain(
        [book_meeting, move_meeting, cancel_meeting],
        """
Book a meeting "Budget review" on 2026-04-02 at 14:00 for 45 minutes => book_meeting(title="Budget review", day="2026-04-02", start="14:00", minutes=45)
Cancel M-204 but don't tell the attendees => cancel_meeting(meeting_id="M-204", notify=False)
Move M-17 to 15:30 => move_meeting(meeting_id="M-17", start="15:30")
Cancel all meetings except M-17 =>
move meeting M-88 from 10:00 to 11:15 => move_meeting(meeting_id="M-88", start="11:15")
Book "Retro" tomorrow at 16:00 with Ana and Boris => book_meeting(title="Retro", day="2026-03-12", start="16:00", attendees=["Ana", "Boris"])
""",
    ),
    "mailbox": Domain(
        [send_mail, forward_mail, search_mail],
        """
Send an email to ana@example.com with subject "Lunch" and body "Are you free at noon?" => send_mail(to="ana@example.com", subject="Lunch", body="Are you free at noon?")
Forward mail 3312 to legal@example.com => forward_mail(mail_id=3312, to="legal@example.com")
Forward mail 18 to tim@example.com without the attachments =>
Mail bob@example.com the subject "Hi" =>
search my mail for invoices => search_mail(query="invoices")
Forward 77 to ana@example.com and bob@example.com => forward_mail(mail_id=77, to="ana@example.com"); forward_mail(mail_id=77, to="bob@example.com")
""",
    ),
    "issues": Domain(
        [create_issue, close_issue, comment_issue],
        """
Create a high priority issue "Login page is blank" => create_issue(title="Login page is blank", priority="high")
Close OPS-12 as duplicate => close_issue(issue="OPS-12", reason="duplicate")
Close OPS-12 as duplicate of OPS-9 =>
comment "Fixed in 2.1" on OPS-31 => comment_issue(issue="OPS-31", text="Fixed in 2.1")
Close OPS-40 and OPS-41 => close_issue(issue="OPS-40"); close_issue(issue="OPS-41")
Close OPS-7 unless it is still in review =>
""",
    ),
    "branches": Domain(
        [create_branch, delete_branch, push],
        """
Create a branch fix/login from develop => create_branch(name="fix/login", base="develop")
Push release/2.0 but do not force => push(branch="release/2.0", force=False)
delete branch feature/old on the remote too => delete_branch(name="feature/old", remote=True)
Force push the branch hotfix-3 => push(branch="hotfix-3", force=True)
Delete all branches except main =>
Create branch spike/cache and push it => create_branch(name="spike/cache"); push(branch="spike/cache")
""",
    ),
    "releases": Domain(
        [release, rollback, scale_service],
        """
Release billing 3.2.0 to production => release(service="billing", version="3.2.0", environment="production")
Release search to staging =>
Scale checkout to 6 replicas => scale_service(service="checkout", replicas=6)
roll back payments to 1.9.4 => rollback(service="payments", version="1.9.4")
Release auth v1.0.3 to dev and staging => release(service="auth", version="v1.0.3", environment="dev"); release(service="auth", version="v1.0.3", environment="staging")
Scale down the worker by 2 replicas =>
""",
    ),
    "refunds": Domain(
        [issue_refund, order_status],
        """
Refund 12.50 on order 88213 => issue_refund(order_id="88213", amount=12.5)
Refund order A-771 because it arrived broken => issue_refund(order_id="A-771", reason="it arrived broken") | issue_refund(order_id="A-771", reason="arrived broken")
Refund half of order A-1002 =>
Where is my order 55120? => order_status(order_id="55120")
Refund order B-12, but only the shipping costs =>
refund 30 euros of order C-450 => issue_refund(order_id="C-450", amount=30)
""",
    ),
    "warehouse": Domain(
        [set_stock, reserve_items, stock_level],
        """
Set the stock of SKU-1001 to 250 => set_stock(sku="SKU-1001", quantity=250)
how many SKU-77 do we have in stock? => stock_level(sku="SKU-77")
Increase the stock of SKU-5 by 10 =>
Reserve 3 of SKU-2002 for Meyer => reserve_items(sku="SKU-2002", quantity=3, customer="Meyer")
Reserve SKU-9 for Tanaka =>
Set the stock of SKU-3 to 12 and SKU-4 to 15 => set_stock(sku="SKU-3", quantity=12); set_stock(sku="SKU-4", quantity=15)
""",
    ),
    "files": Domain(
        [rename_file, copy_file, delete_file],
        """
Rename draft.txt to final.txt => rename_file(old="draft.txt", new="final.txt")
Copy a.csv to backup/a.csv and overwrite it => copy_file(source="a.csv", target="backup/a.csv", overwrite=True)
Delete tmp.log if it is older than a week =>
copy report.pdf to /shared/report.pdf => copy_file(source="report.pdf", target="/shared/report.pdf")
Don't delete notes.md =>
Delete everything in /tmp except keep.txt =>
""",
    ),
    "notes": Domain(
        [add_note, find_notes],
        """
Add a note "Call the plumber" => add_note(text="Call the plumber")
Add a note "Buy milk" tagged shopping and home => add_note(text="Buy milk", tags=["shopping", "home"])
find my notes tagged work => find_notes(tag="work")
Delete the note about the plumber =>
Save the note "Door code 4711" with tag house => add_note(text="Door code 4711", tags=["house"])
Show the notes tagged garden but not the old ones =>
""",
    ),
    "player": Domain(
        [play_song, set_volume, pause_music],
        """
Play "Yesterday" by The Beatles => play_song(title="Yesterday", artist="The Beatles") | play_song(title="Yesterday", artist="Beatles")
set volume to 30 => set_volume(percent=30)
Turn the volume up a little =>
Pause the music => pause_music()
Play "Hey Jude" at volume 20 => play_song(title="Hey Jude"); set_volume(percent=20)
Pause the music in ten minutes =>
""",
    ),
    "trains": Domain(
        [find_trains, book_train],
        """
Find trains from Hamburg to Munich on 2026-05-01 => find_trains(origin="Hamburg", destination="Munich", day="2026-05-01")
Book a train from Lyon to Paris tomorrow for 2 people => book_train(origin="Lyon", destination="Paris", day="2026-03-12", seats=2)
Book a train from Rome to Milan on 2026-04-10 and back on 2026-04-12 => book_train(origin="Rome", destination="Milan", day="2026-04-10"); book_train(origin="Milan", destination="Rome", day="2026-04-12")
Book 3 seats from Vienna to Graz on 2026-06-03 in first class => book_train(origin="Vienna", destination="Graz", day="2026-06-03", seats=3, first_class=True)
Book a train to Berlin =>
Book a train from Bern to Basel on 2026-03-20, not first class => book_train(origin="Bern", destination="Basel", day="2026-03-20")
""",
    ),
    "bank": Domain(
        [send_money, account_balance, block_card],
        """
Send 25 euros to Lena => send_money(to="Lena", amount=25, currency="EUR")
Send 40 USD to Omar with the note "rent" => send_money(to="Omar", amount=40, currency="USD", note="rent")
Send 100 to Mia every month =>
what is the balance of my savings account => account_balance(account="savings")
Block my card ending in 4471 => block_card(last_digits="4471")
Send 60 yen to Kenji =>
""",
    ),
    "maths": Domain(
        [convert_units, percent_of, multiply, divide, add],
        """
Convert 12 miles to kilometers => convert_units(value=12, from_unit="miles", to_unit="kilometers")
What is 15 percent of 80? => percent_of(percent=15, number=80)
What is 7 times 6? => multiply(a=7, b=6)
divide 144 by 12 => divide(dividend=144, divisor=12)
What is the square root of 81? =>
Multiply 3, 4 and 5 =>
""",
    ),
    "translation": Domain(
        [translate],
        """
Translate "good morning" into French => translate(text="good morning", language="French")
How do you say "thank you" in Japanese? => translate(text="thank you", language="Japanese")
translate 'where is the station' to spanish => translate(text="where is the station", language="Spanish")
Translate "cheers" =>
Could you translate "see you at 8" into German, please? => translate(text="see you at 8", language="German")
Translate "hello" into Italian and Greek => translate(text="hello", language="Italian"); translate(text="hello", language="Greek")
""",
    ),
    "timers": Domain(
        [set_timer, remind, cancel_timer],
        """
Set a timer for 12 minutes => set_timer(minutes=12)
Remind me to call the dentist tomorrow at 10:30 => remind(text="call the dentist", day="2026-03-12", time="10:30") | remind(text="to call the dentist", day="2026-03-12", time="10:30")
Set a timer for 90 seconds =>
set a 5 minute timer called tea => set_timer(minutes=5, label="tea")
Remind me on 2026-04-01 to pay the rent => remind(text="pay the rent", day="2026-04-01") | remind(text="to pay the rent", day="2026-04-01")
Cancel every timer except the pasta timer =>
""",
    ),
    "contacts": Domain(
        [add_contact, find_contact],
        """
Add Jonas Weber with phone +49 170 1234567 to my contacts => add_contact(name="Jonas Weber", phone="+49 170 1234567")
Add a contact for Ines, ines@example.org => add_contact(name="Ines", email="ines@example.org")
Delete the contact Paul =>
what is the phone number of Greta => find_contact(name="Greta")
Add Marco to my contacts => add_contact(name="Marco")
Add Nina, but leave out her phone number 555-0101 => add_contact(name="Nina")
""",
    ),
    "leave": Domain(
        [request_leave, leave_balance],
        """
Request vacation from 2026-07-01 to 2026-07-14 => request_leave(start="2026-07-01", end="2026-07-14", kind="vacation")
How many days of leave does Petra have left? => leave_balance(employee="Petra")
Request half a day off on 2026-05-04 =>
request unpaid leave from 2026-08-03 until 2026-08-07 => request_leave(start="2026-08-03", end="2026-08-07", kind="unpaid")
Request leave from 2026-09-01 =>
Request sick leave from 2026-03-11 to 2026-03-13, but not for the 12th =>
""",
    ),
    "database": Domain(
        [count_rows, drop_table, backup_database],
        """
How many rows are in the table customers? => count_rows(table="customers")
Back up the database orders and compress it => backup_database(name="orders", compress=True)
Drop the table temp_import but keep its rows =>
drop table old_sessions => drop_table(table="old_sessions")
Drop all tables that start with tmp_ =>
Back up crm without compression => backup_database(name="crm", compress=False)
""",
    ),
    "devices": Domain(
        [restart_device, set_interval, read_sensor],
        """
Restart gateway-12 => restart_device(device_id="gateway-12")
Let sensor-3 report every 30 seconds => set_interval(device_id="sensor-3", seconds=30)
Set the interval of sensor-8 to 2 minutes => set_interval(device_id="sensor-8", seconds=120)
what does sensor-5 read? => read_sensor(device_id="sensor-5")
Restart all devices but gateway-1 =>
Restart router-2 at midnight =>
""",
    ),
    "weather and pizza": Domain(
        [get_weather, order_pizza],
        """
What's the weather like in Oslo? => get_weather(city="Oslo")
Order a large pizza with mushrooms and olives => order_pizza(size="large", toppings=["mushrooms", "olives"])
Order a medium pizza with ham, no cheese =>
weather in new york in fahrenheit => get_weather(city="New York", unit="fahrenheit")
Order 2 small pizzas with salami => order_pizza(size="small", toppings=["salami"], quantity=2)
Order a huge pizza with tuna =>
""",
    ),
    "to-do": Domain(
        [add_todo, complete_todo, post_message, invite_user],
        """
Add "Renew passport" to my to-do list, due 2026-06-30 => add_todo(task="Renew passport", due="2026-06-30")
Mark task 14 as done => complete_todo(task_id=14)
Post "Build is green" to #dev and #ops => post_message(channel="#dev", text="Build is green"); post_message(channel="#ops", text="Build is green")
post "Lunch is here" in #general => post_message(channel="#general", text="Lunch is here")
Invite kim to #design as a guest => invite_user(user="kim", channel="#design", guest=True)
Mark task 9 as not done =>
""",
    ),
    "accounts": Domain(
        [create_user, deactivate_user, set_role],
        """
Create a user jdoe with email jdoe@example.com as editor => create_user(username="jdoe", email="jdoe@example.com", role="editor")
Make lisa an admin => set_role(username="lisa", role="admin")
Deactivate mkurz on Friday =>
deactivate the user tbauer => deactivate_user(username="tbauer")
Create a user rsmith =>
Give pat the editor role, not admin => set_role(username="pat", role="editor")
""",
    ),
    "cart": Domain(
        [apply_discount, add_to_cart, checkout],
        """
Give a 10% discount on cart C-881 => apply_discount(cart="C-881", percent=10)
Add 4 candles to the cart, gift wrapped => add_to_cart(product="candles", quantity=4, gift_wrap=True)
Check out cart C-12 without express => checkout(cart="C-12", express=False)
check out cart C-31 with express delivery => checkout(cart="C-31", express=True)
Give a discount of 5 euros on cart C-7 =>
Remove the mug from the cart =>
""",
    ),
    "operations": Domain(
        [tail_log, restart_service, silence_alert],
        """
Show me the last 50 lines of the nginx log => tail_log(service="nginx", lines=50)
Silence the alert disk-full for 4 hours => silence_alert(alert="disk-full", hours=4)
Restart api and worker, but not the scheduler => restart_service(service="api"); restart_service(service="worker")
restart redis please => restart_service(service="redis")
Only show errors of the gateway => tail_log(service="gateway", level="error")
Silence cpu-high for 30 minutes =>
""",
    ),
    "money and time": Domain(
        [book_table, exchange_rate, convert_currency, log_hours, approve_invoice, charge_car, lock_car],
        """
Book a table at Luigi's for 4 on 2026-03-21 at 19:30 => book_table(restaurant="Luigi's", guests=4, day="2026-03-21", time="19:30")
Approve 500 of invoice INV-2041 => approve_invoice(number="INV-2041", amount=500)
Lock the car but leave the trunk open =>
Convert 200 USD to CHF => convert_currency(amount=200, source="USD", target="CHF")
Log 6.5 hours on project Apollo yesterday => log_hours(project="Apollo", hours=6.5, day="2026-03-10")
Charge the car up to 60 percent, not 80 => charge_car(percent=60)
""",
    ),
}


def _take_lines(first: int, last: int) -> dict[str, Domain]:
    return {
        name: domain._replace(lines="\n".join(domain.lines.strip().splitlines()[first:last]))
        for name, domain in FRESH.items()
    }


FRESH_READ = _take_lines(0, 3)
FRESH_UNREAD = _take_lines(3, 6)
