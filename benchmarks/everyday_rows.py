"""Everyday sentences over everyday tools, with the calls that each asks for; read by `everyday.py`.

A line is `sentence => call`; several calls are separated by `;`, alternatives by `|`, and nothing behind the arrow means
that no call is right. `HELD_OUT` has other tools than `TUNING`, and its lines were not read while the offline model was
changed.
"""

# ruff: noqa: ARG001 (the tools have fixed results)

from typing import Any, Literal, NamedTuple

from agentkit import tool


class Domain(NamedTuple):
    """Tools that are offered together, and the lines of sentences."""

    tools: list[Any]
    lines: str


@tool(effect="write")
def set_light(room: str, on: bool = True, brightness: int | None = None) -> str:
    """Switch the light of a room on or off.

    Args:
        room: The room.
        on: Whether the light is on.
        brightness: Brightness in percent.
    """
    return "ok"


@tool(effect="write")
def set_thermostat(temperature: float, room: str = "living room") -> str:
    """Set the thermostat.

    Args:
        temperature: Degrees Celsius.
        room: The room.
    """
    return "ok"


@tool(effect="read")
def room_temperature(room: str) -> float:
    """Measure the temperature in a room."""
    return 20.5


@tool
def start_vacuum(room: str | None = None) -> str:
    """Start the vacuum cleaner, in one room or everywhere."""
    return "ok"


@tool(effect="danger")
def unlock_door(door: str) -> str:
    """Unlock a door of the house."""
    return "ok"


HOME = Domain(
    [set_light, set_thermostat, room_temperature, start_vacuum, unlock_door],
    """
Switch the light in the kitchen on => set_light(room="kitchen", on=True)
Switch off the light in the bedroom => set_light(room="bedroom", on=False)
Please turn the kitchen light off => set_light(room="kitchen", on=False)
Set the light in the hall to 40 percent => set_light(room="hall", brightness=40)
Set the thermostat to 21.5 degrees => set_thermostat(temperature=21.5)
Set the thermostat in the bedroom to 18 => set_thermostat(temperature=18, room="bedroom")
How warm is it in the bathroom? => room_temperature(room="bathroom")
What is the temperature in the nursery? => room_temperature(room="nursery")
Start the vacuum cleaner => start_vacuum()
Start the vacuum in the living room => start_vacuum(room="living room")
Unlock the front door => unlock_door(door="front door")
Unlock the garage => unlock_door(door="garage")
Don't unlock the back door =>
Unlock the front door at 18:00 =>
Set the thermostat to 20 for two hours =>
Switch every light off except the one in the hall =>
Start the vacuum in the study, not in the hall => start_vacuum(room="study")
""",
)


@tool(effect="danger")
def transfer_money(amount: float, to_account: str, from_account: str = "checking", reference: str = "") -> str:
    """Transfer money between accounts.

    Args:
        amount: Amount in euros.
        to_account: The account that receives the money.
        from_account: The account that pays.
        reference: Reference text.
    """
    return "ok"


@tool(effect="read")
def account_balance(account: str) -> float:
    """Return the balance of an account."""
    return 812.4


@tool(effect="danger")
def pay_invoice(invoice_id: str) -> str:
    """Pay an invoice in full.

    Args:
        invoice_id: Number of the invoice, like INV-1001.
    """
    return "ok"


@tool(effect="read")
def list_transactions(account: str, since: str | None = None, limit: int = 20) -> str:
    """List the transactions of an account.

    Args:
        account: The account.
        since: First day, YYYY-MM-DD.
        limit: At most so many.
    """
    return "none"


@tool(effect="write")
def block_card(last_digits: str) -> str:
    """Block a card.

    Args:
        last_digits: The last four digits of the card.
    """
    return "ok"


MONEY = Domain(
    [transfer_money, account_balance, pay_invoice, list_transactions, block_card],
    """
Transfer 250 euros from savings to checking => transfer_money(amount=250, from_account="savings", to_account="checking")
Transfer 80 to the account savings => transfer_money(amount=80, to_account="savings")
Transfer 1,200.50 euros to DE89370400440532013000 => transfer_money(amount=1200.5, to_account="DE89370400440532013000")
Transfer 45 euros to savings with the reference 'holiday fund' => transfer_money(amount=45, to_account="savings", reference="holiday fund")
What is the balance of my savings account? => account_balance(account="savings")
How much is the balance of checking? => account_balance(account="checking")
Pay invoice INV-1001 => pay_invoice(invoice_id="INV-1001")
Please pay INV-2040 and INV-2041 => pay_invoice(invoice_id="INV-2040"); pay_invoice(invoice_id="INV-2041")
Pay 100 euros of invoice INV-1001 =>
Pay half of invoice INV-1001 =>
Don't pay INV-1007 yet =>
Pay invoice INV-1001 on 2026-04-01 =>
List the transactions of checking since 2026-02-01 => list_transactions(account="checking", since="2026-02-01")
Show the last 5 transactions of savings => list_transactions(account="savings", limit=5)
Block the card ending in 4821 => block_card(last_digits="4821")
Block my card =>
Transfer money to savings =>
Transfer 300 euros to savings and 200 euros to pension => transfer_money(amount=300, to_account="savings"); transfer_money(amount=200, to_account="pension")
""",
)


@tool(effect="write")
def create_ticket(title: str, priority: Literal["low", "normal", "high"] = "normal", project: str = "") -> str:
    """Create a ticket.

    Args:
        title: Title of the ticket.
        priority: Its priority.
        project: Key of the project, like OPS.
    """
    return "OPS-1"


@tool(effect="write")
def assign_ticket(ticket_id: str, person: str) -> str:
    """Assign a ticket to a person."""
    return "ok"


@tool(effect="write")
def close_ticket(ticket_id: str, comment: str = "") -> str:
    """Close a ticket.

    Args:
        ticket_id: Id of the ticket.
        comment: What the customer is told.
    """
    return "ok"


@tool(effect="read")
def ticket_status(ticket_id: str) -> str:
    """Look up the status of a ticket."""
    return "open"


@tool(effect="read")
def search_tickets(text: str, status: Literal["open", "closed"] | None = None) -> str:
    """Search the tickets for a text."""
    return "none"


@tool(effect="write")
def set_priority(ticket_id: str, priority: Literal["low", "normal", "high"]) -> str:
    """Set the priority of a ticket."""
    return "ok"


TICKETS = Domain(
    [create_ticket, assign_ticket, close_ticket, ticket_status, search_tickets, set_priority],
    """
Create a ticket 'Printer on floor 3 is jammed' => create_ticket(title="Printer on floor 3 is jammed")
Create a high priority ticket 'Payments fail' in project OPS => create_ticket(title="Payments fail", priority="high", project="OPS")
Assign OPS-311 to Maria => assign_ticket(ticket_id="OPS-311", person="Maria")
Assign ticket OPS-312 to Jonas Weber, please => assign_ticket(ticket_id="OPS-312", person="Jonas Weber")
Close OPS-290 => close_ticket(ticket_id="OPS-290")
Close ticket WEB-17 with the comment "Fixed in 2.3" => close_ticket(ticket_id="WEB-17", comment="Fixed in 2.3")
Close OPS-290 and OPS-291 => close_ticket(ticket_id="OPS-290"); close_ticket(ticket_id="OPS-291")
What's the status of OPS-311? => ticket_status(ticket_id="OPS-311")
Is WEB-20 still open? => ticket_status(ticket_id="WEB-20")
Search the tickets for 'login loop' => search_tickets(text="login loop")
Search open tickets for "timeout" => search_tickets(text="timeout", status="open")
Set the priority of OPS-311 to high => set_priority(ticket_id="OPS-311", priority="high")
Set OPS-300 to low priority => set_priority(ticket_id="OPS-300", priority="low")
Close OPS-290 unless Maria objects =>
Never close OPS-1 =>
Assign OPS-311 =>
Close the ticket about the printer =>
Assign OPS-311 to Maria and close OPS-290 => assign_ticket(ticket_id="OPS-311", person="Maria"); close_ticket(ticket_id="OPS-290")
""",
)


@tool(effect="read")
def search_flights(origin: str, destination: str, date: str, passengers: int = 1) -> str:
    """Search flights.

    Args:
        origin: City of departure.
        destination: City of arrival.
        date: Day of the flight, YYYY-MM-DD.
        passengers: Number of passengers.
    """
    return "none"


@tool(effect="danger")
def book_hotel(city: str, check_in: str, nights: int) -> str:
    """Book a hotel room.

    Args:
        city: The city.
        check_in: First night, YYYY-MM-DD.
        nights: Number of nights.
    """
    return "ok"


@tool(effect="danger")
def cancel_booking(booking_id: str, refund: bool = True) -> str:
    """Cancel a booking.

    Args:
        booking_id: Id of the booking.
        refund: Whether the money is paid back.
    """
    return "ok"


@tool(effect="read")
def flight_status(flight: str) -> str:
    """Tell whether a flight is on time.

    Args:
        flight: Flight number.
    """
    return "on time"


@tool(effect="read")
def train_times(start: str, end: str) -> str:
    """List the trains between two stations."""
    return "none"


TRAVEL = Domain(
    [search_flights, book_hotel, cancel_booking, flight_status, train_times],
    """
Search flights from Vienna to Lisbon on 2026-05-02 => search_flights(origin="Vienna", destination="Lisbon", date="2026-05-02")
Search a flight from Oslo to Rome on June 3, 2026 for 2 passengers => search_flights(origin="Oslo", destination="Rome", date="2026-06-03", passengers=2)
Book a hotel room in Porto from 2026-05-02 for 3 nights => book_hotel(city="Porto", check_in="2026-05-02", nights=3)
Book a hotel in Graz for two nights, check in 2026-07-10 => book_hotel(city="Graz", check_in="2026-07-10", nights=2)
Book a hotel in Graz =>
Cancel booking BK-7781 => cancel_booking(booking_id="BK-7781")
Cancel BK-7781 without a refund => cancel_booking(booking_id="BK-7781", refund=False)
Cancel the booking BK-9001 with refund => cancel_booking(booking_id="BK-9001", refund=True)
Is flight OS 451 on time? => flight_status(flight="OS 451")
Is LH1234 on time? => flight_status(flight="LH1234")
List the trains from Linz to Graz => train_times(start="Linz", end="Graz")
Which trains go from Bern to Milan? => train_times(start="Bern", end="Milan")
Cancel one night of booking BK-7781 =>
Do not cancel BK-7781 =>
Book a hotel in Porto with a sea view from 2026-05-02 for 3 nights =>
Search flights from Vienna to Lisbon =>
""",
)


@tool
def add_todo(text: str, due: str | None = None) -> str:
    """Add an item to the todo list.

    Args:
        text: What is to be done.
        due: Last day, YYYY-MM-DD.
    """
    return "ok"


@tool
def complete_todo(number: int) -> str:
    """Mark an item of the todo list as done.

    Args:
        number: Number of the item.
    """
    return "ok"


@tool(effect="read")
def list_todos() -> str:
    """List the items of the todo list."""
    return "none"


@tool
def play_music(artist: str | None = None, song: str | None = None) -> str:
    """Play music.

    Args:
        artist: Name of the artist.
        song: Title of the song.
    """
    return "ok"


@tool
def set_volume(level: int) -> str:
    """Set the volume of the speaker.

    Args:
        level: From 0 to 100.
    """
    return "ok"


@tool
def set_alarm(time: str) -> str:
    """Set an alarm.

    Args:
        time: HH:MM, 24 hours.
    """
    return "ok"


@tool(effect="read")
def define_word(word: str) -> str:
    """Look a word up in the dictionary."""
    return "none"


ASSISTANT = Domain(
    [add_todo, complete_todo, list_todos, play_music, set_volume, set_alarm, define_word],
    """
Add 'buy stamps' to my todo list => add_todo(text="buy stamps")
Add "call the plumber" to the todo list, due 2026-03-20 => add_todo(text="call the plumber", due="2026-03-20")
Mark item 3 of the todo list as done => complete_todo(number=3)
Complete todo 7 => complete_todo(number=7)
List my todos => list_todos()
What is on my todo list? => list_todos()
Play music by Miles Davis => play_music(artist="Miles Davis")
Play the song 'So What' by Miles Davis => play_music(artist="Miles Davis", song="So What")
Set the volume to 35 => set_volume(level=35)
Volume 60 please => set_volume(level=60)
Set an alarm for 6:45 => set_alarm(time="06:45") | set_alarm(time="6:45")
Set an alarm at 7 pm => set_alarm(time="19:00")
Set two alarms, at 6:00 and 6:30 => set_alarm(time="06:00"); set_alarm(time="06:30") | set_alarm(time="6:00"); set_alarm(time="6:30")
Look up the word 'ubiquitous' => define_word(word="ubiquitous")
What does the word serendipity mean? => define_word(word="serendipity")
Do not set an alarm for 6:45 =>
Set the alarm of the car =>
Set an alarm for 6:45 on 2026-03-14 =>
Order a pizza =>
Tell me a story =>
""",
)


@tool
def create_user(name: str, email: str, admin: bool = False) -> str:
    """Create a user account.

    Args:
        name: Full name.
        email: E-mail address.
        admin: Whether the user is an administrator.
    """
    return "ok"


@tool
def reset_password(user: str, notify: bool = True) -> str:
    """Reset the password of a user.

    Args:
        user: Login of the user.
        notify: Whether the user gets a mail about it.
    """
    return "ok"


@tool(effect="danger")
def drop_table(table: str, database: str) -> str:
    """Drop a table of a database."""
    return "ok"


@tool(effect="read")
def count_rows(table: str) -> int:
    """Count the rows of a table."""
    return 3


@tool
def grant_role(user: str, role: Literal["viewer", "editor", "owner"]) -> str:
    """Grant a role to a user."""
    return "ok"


@tool
def set_stock(sku: str, quantity: int) -> str:
    """Set the stock of an article.

    Args:
        sku: Number of the article.
        quantity: Pieces in stock.
    """
    return "ok"


@tool(effect="read")
def article_price(article: str) -> float:
    """Return the price of an article."""
    return 4.25


ADMIN = Domain(
    [create_user, reset_password, drop_table, count_rows, grant_role, set_stock, article_price],
    """
Create a user account for Lena Kurz with the email lena@example.org => create_user(name="Lena Kurz", email="lena@example.org")
Create the user Tom Hale, tom@example.org, as admin => create_user(name="Tom Hale", email="tom@example.org", admin=True)
Reset the password of user mkurz => reset_password(user="mkurz")
Reset the password of jdoe without notifying him => reset_password(user="jdoe", notify=False)
Drop the table tmp_orders of the database staging => drop_table(table="tmp_orders", database="staging")
Drop table tmp_orders in database shop_test => drop_table(table="tmp_orders", database="shop_test")
Drop the table tmp_orders =>
Count the rows of the table customers => count_rows(table="customers")
How many rows does order_items have? => count_rows(table="order_items")
Grant the editor role to mkurz => grant_role(user="mkurz", role="editor")
Grant jdoe the role viewer => grant_role(user="jdoe", role="viewer")
Grant the role viewer or editor to jdoe =>
Set the stock of A-778 to 40 => set_stock(sku="A-778", quantity=40)
Set the stock of B-12 to 5 and of B-13 to 9 => set_stock(sku="B-12", quantity=5); set_stock(sku="B-13", quantity=9)
Increase the stock of A-778 by 40 =>
What is the price of the article 'desk lamp'? => article_price(article="desk lamp")
How much does a desk lamp cost? => article_price(article="desk lamp")
Reset the password of everybody except mkurz =>
""",
)


@tool(effect="write")
def enrol_student(student: str, course: str) -> str:
    """Enrol a student in a course."""
    return "ok"


@tool(effect="write")
def record_grade(student: str, course: str, grade: int) -> str:
    """Record the grade of a student in a course.

    Args:
        student: Name of the student.
        course: Name of the course.
        grade: From 1 to 6.
    """
    return "ok"


@tool(effect="danger")
def expel_student(student_id: str, reason: str = "") -> str:
    """Expel a student from the school.

    Args:
        student_id: Id of the student, like S-204.
        reason: Why.
    """
    return "ok"


@tool(effect="read")
def timetable(class_name: str, day: str | None = None) -> str:
    """Show the timetable of a class."""
    return "none"


@tool(effect="read")
def average_grade(course: str) -> float:
    """Compute the average grade of a course."""
    return 2.3


def excuse_absence(student: str, date: str) -> str:
    """Excuse the absence of a student on a day.

    Args:
        student: Name of the student.
        date: Day, YYYY-MM-DD.
    """
    return "ok"


SCHOOL = Domain(
    [enrol_student, record_grade, expel_student, timetable, average_grade, excuse_absence],
    """
Enrol Lena Kurz in the course Biology => enrol_student(student="Lena Kurz", course="Biology")
Enrol Lena and Tom in Biology => enrol_student(student="Lena", course="Biology"); enrol_student(student="Tom", course="Biology")
Enrol Lena =>
Record grade 2 for Lena Kurz in Biology => record_grade(student="Lena Kurz", course="Biology", grade=2)
Record a grade for Lena in Biology =>
Record grade 2 or 3 for Lena in Biology =>
Expel S-204 => expel_student(student_id="S-204")
Expel student S-204 for three days =>
Don't expel S-204 =>
Should we expel S-204? =>
Show the timetable of class 7b => timetable(class_name="7b")
What is the average grade of Biology? => average_grade(course="Biology")
Excuse the absence of Tom on 2026-03-09 => excuse_absence(student="Tom", date="2026-03-09")
Excuse Tom's absence on 2026-03-09 and 2026-03-10 => excuse_absence(student="Tom", date="2026-03-09"); excuse_absence(student="Tom", date="2026-03-10")
Excuse Tom until 2026-03-20 =>
Excuse everybody on 2026-03-09 =>
""",
)


def schedule_service(plate: str, date: str) -> str:
    """Schedule a service for a car.

    Args:
        plate: Licence plate, like W-4711.
        date: Day, YYYY-MM-DD.
    """
    return "ok"


def order_part(part: str, quantity: int = 1) -> str:
    """Order a spare part.

    Args:
        part: The part.
        quantity: How many.
    """
    return "ok"


def add_mileage(plate: str, kilometres: int) -> str:
    """Record the mileage of a car in kilometres."""
    return "ok"


@tool(effect="read")
def car_details(plate: str) -> str:
    """Look up the details of a car by its plate."""
    return "none"


@tool(effect="danger")
def scrap_car(plate: str, keep_parts: bool = True) -> str:
    """Scrap a car.

    Args:
        plate: Licence plate.
        keep_parts: Whether usable parts are kept.
    """
    return "ok"


def fuel_cost(litres: float, price_per_litre: float) -> float:
    """Compute the cost of fuel.

    Args:
        litres: Litres of fuel.
        price_per_litre: Price of one litre in euros.
    """
    return litres * price_per_litre


GARAGE = Domain(
    [schedule_service, order_part, add_mileage, car_details, scrap_car, fuel_cost],
    """
Schedule a service for W-4711 on 2026-04-02 => schedule_service(plate="W-4711", date="2026-04-02")
Schedule a service for W-4711 =>
Schedule a service for the red car on 2026-04-02 =>
Schedule a service for W-4711 on 2026-04-02 or 2026-04-03 =>
Order 4 brake pads => order_part(part="brake pads", quantity=4)
Order the spare part 'wiper blade' => order_part(part="wiper blade")
Order 4 brake pads for W-4711 =>
Record a mileage of 81500 kilometres for W-4711 => add_mileage(plate="W-4711", kilometres=81500)
Record 50000 miles for W-4711 =>
Look up the details of W-4711 => car_details(plate="W-4711")
Scrap W-4711 => scrap_car(plate="W-4711")
Scrap W-4711 and don't keep the parts => scrap_car(plate="W-4711", keep_parts=False)
Scrap W-4711 without keeping parts => scrap_car(plate="W-4711", keep_parts=False)
Scrap all cars but W-4711 =>
Never scrap W-4711 =>
Scrap W-4711 once it is empty =>
What do 40 litres of fuel cost at a price of 1.60? => fuel_cost(litres=40, price_per_litre=1.6)
""",
)


@tool(effect="write")
def pause_subscription(subscription_id: str, months: int = 1) -> str:
    """Pause a subscription.

    Args:
        subscription_id: Id of the subscription, like SUB-31.
        months: Number of months.
    """
    return "ok"


@tool(effect="danger")
def end_subscription(subscription_id: str, immediately: bool = False) -> str:
    """End a subscription.

    Args:
        subscription_id: Id of the subscription.
        immediately: Whether it ends at once instead of at the end of the month.
    """
    return "ok"


@tool(effect="write")
def apply_discount(subscription_id: str, percent: float) -> str:
    """Give a discount on a subscription.

    Args:
        subscription_id: Id of the subscription.
        percent: Discount in percent.
    """
    return "ok"


@tool(effect="write")
def change_plan(subscription_id: str, plan: Literal["basic", "family", "business"]) -> str:
    """Change the plan of a subscription."""
    return "ok"


@tool(effect="read")
def subscription_details(subscription_id: str) -> str:
    """Show the details of a subscription."""
    return "none"


@tool(effect="read")
def count_subscriptions(plan: Literal["basic", "family", "business"] | None = None) -> int:
    """Count the subscriptions."""
    return 3


SUBSCRIPTIONS = Domain(
    [pause_subscription, end_subscription, apply_discount, change_plan, subscription_details, count_subscriptions],
    """
Pause SUB-31 => pause_subscription(subscription_id="SUB-31")
Pause SUB-31 for 3 months => pause_subscription(subscription_id="SUB-31", months=3)
Pause SUB-31 for two weeks =>
Pause my subscription =>
End SUB-31 => end_subscription(subscription_id="SUB-31")
End SUB-31 immediately => end_subscription(subscription_id="SUB-31", immediately=True)
End SUB-31 on 2026-05-01 =>
End SUB-31, not SUB-32 => end_subscription(subscription_id="SUB-31")
Give SUB-31 a discount of 15 percent => apply_discount(subscription_id="SUB-31", percent=15)
Give SUB-31 a discount of 15 euros =>
Give SUB-31 a discount =>
Change the plan of SUB-31 to family => change_plan(subscription_id="SUB-31", plan="family")
Change SUB-31 from basic to business => change_plan(subscription_id="SUB-31", plan="business")
Change SUB-31 to premium =>
Change SUB-31 to family and SUB-32 to basic => change_plan(subscription_id="SUB-31", plan="family"); change_plan(subscription_id="SUB-32", plan="basic")
Show the details of SUB-31 => subscription_details(subscription_id="SUB-31")
Count the family subscriptions => count_subscriptions(plan="family")
How many subscriptions are there? => count_subscriptions()
""",
)

HELD_OUT = {
    "travel": TRAVEL,
    "assistant": ASSISTANT,
    "admin": ADMIN,
    "school": SCHOOL,
    "garage": GARAGE,
    "subscriptions": SUBSCRIPTIONS,
}


@tool(effect="write")
def create_event(title: str, date: str, time: str, attendees: list[str] | None = None) -> str:
    """Create an event in the calendar.

    Args:
        title: Title of the event.
        date: Day, YYYY-MM-DD.
        time: Start, HH:MM in 24 hours.
        attendees: Mail addresses of the guests.
    """
    return "EV-1"


@tool(effect="write")
def cancel_event(event_id: str, notify: bool = True) -> str:
    """Cancel an event.

    Args:
        event_id: Id of the event, like EV-1001.
        notify: Whether the guests are notified.
    """
    return "ok"


@tool(effect="write")
def move_event(event_id: str, date: str, time: str | None = None) -> str:
    """Move an event to another day.

    Args:
        event_id: Id of the event.
        date: The new day, YYYY-MM-DD.
        time: The new start, HH:MM.
    """
    return "ok"


@tool(effect="read")
def list_events(date: str) -> str:
    """List the events of a day.

    Args:
        date: Day, YYYY-MM-DD.
    """
    return "none"


@tool(effect="write")
def invite(event_id: str, email: str) -> str:
    """Invite a person to an event."""
    return "ok"


CALENDAR = Domain(
    [create_event, cancel_event, move_event, list_events, invite],
    """
Create an event 'Sprint review' on 2026-03-20 at 10:00 => create_event(title="Sprint review", date="2026-03-20", time="10:00")
Create the event "Lunch with Eva" tomorrow at 12:30 => create_event(title="Lunch with Eva", date="2026-03-12", time="12:30")
Create an event 'Retro' on 2026-03-20 at 3 pm with ann@x.org and bob@x.org => create_event(title="Retro", date="2026-03-20", time="15:00", attendees=["ann@x.org", "bob@x.org"])
Cancel EV-2041 => cancel_event(event_id="EV-2041")
Cancel EV-2041 without notifying anybody => cancel_event(event_id="EV-2041", notify=False)
Cancel EV-2041 and notify everybody => cancel_event(event_id="EV-2041", notify=True)
Cancel the event EV-2041 but don't notify the guests => cancel_event(event_id="EV-2041", notify=False)
Cancel events EV-2041 and EV-2042 => cancel_event(event_id="EV-2041"); cancel_event(event_id="EV-2042")
Cancel all my events except EV-2041 =>
Cancel EV-2041 if nobody has accepted =>
Please don't cancel EV-2041 =>
Cancel the event with Eva =>
Move EV-1007 to 2026-04-02 => move_event(event_id="EV-1007", date="2026-04-02")
Move the event EV-1007 to 2026-04-02 at 16:00 => move_event(event_id="EV-1007", date="2026-04-02", time="16:00")
Move EV-1007 from 2026-04-01 to 2026-04-02 => move_event(event_id="EV-1007", date="2026-04-02")
Move EV-1007 =>
What events do I have on 2026-03-15? => list_events(date="2026-03-15")
List my events tomorrow => list_events(date="2026-03-12")
Invite eva@example.org to EV-1007 => invite(event_id="EV-1007", email="eva@example.org")
Invite eva@example.org and tom@example.org to EV-1007 => invite(event_id="EV-1007", email="eva@example.org"); invite(event_id="EV-1007", email="tom@example.org")
""",
)


@tool(effect="danger")
def deploy(service: str, environment: Literal["staging", "production"], version: str | None = None) -> str:
    """Deploy a service.

    Args:
        service: Name of the service.
        environment: Where it runs.
        version: Version to deploy.
    """
    return "ok"


@tool
def rollback(service: str, version: str) -> str:
    """Roll a service back to a version."""
    return "ok"


@tool
def scale(service: str, replicas: int) -> str:
    """Scale a service.

    Args:
        service: Name of the service.
        replicas: Number of replicas.
    """
    return "ok"


@tool(effect="danger")
def restart(service: str) -> str:
    """Restart a service."""
    return "ok"


@tool(effect="read")
def service_logs(service: str, lines: int = 100) -> str:
    """Show the logs of a service.

    Args:
        service: Name of the service.
        lines: Number of lines.
    """
    return "none"


@tool(effect="read")
def service_health(service: str) -> str:
    """Tell whether a service is healthy."""
    return "up"


DEPLOYMENTS = Domain(
    [deploy, rollback, scale, restart, service_logs, service_health],
    """
Deploy billing v2.4.1 to staging => deploy(service="billing", environment="staging", version="v2.4.1")
Deploy checkout to production => deploy(service="checkout", environment="production")
Deploy version 3.0.2 of checkout-api to production => deploy(service="checkout-api", environment="production", version="3.0.2")
Deploy billing =>
Deploy billing to staging and production => deploy(service="billing", environment="staging"); deploy(service="billing", environment="production")
Deploy billing to staging, not production => deploy(service="billing", environment="staging")
Deploy billing to staging at 22:00 =>
Roll billing back to v2.4.0 => rollback(service="billing", version="v2.4.0")
Roll back checkout-api to 3.0.1 => rollback(service="checkout-api", version="3.0.1")
Roll back billing =>
Scale the service checkout-api to 5 replicas => scale(service="checkout-api", replicas=5)
Scale billing to three replicas => scale(service="billing", replicas=3)
Scale billing from 3 to 5 replicas => scale(service="billing", replicas=5)
Restart billing => restart(service="billing")
Restart checkout-api and billing => restart(service="checkout-api"); restart(service="billing")
Restart node 3 of billing =>
Restart everything but billing =>
Never restart billing =>
Show the last 50 lines of the logs of checkout-api => service_logs(service="checkout-api", lines=50)
Show me the logs of billing => service_logs(service="billing")
Is billing healthy? => service_health(service="billing")
""",
)


@tool(effect="write")
def merge_pull_request(number: int, method: Literal["merge", "squash", "rebase"] = "merge") -> str:
    """Merge a pull request.

    Args:
        number: Number of the pull request.
        method: How it is merged.
    """
    return "ok"


@tool(effect="write")
def create_branch(name: str, base: str = "main") -> str:
    """Create a branch.

    Args:
        name: Name of the new branch.
        base: The branch that it starts from.
    """
    return "ok"


@tool(effect="danger")
def delete_branch(name: str) -> str:
    """Delete a branch."""
    return "ok"


@tool(effect="write")
def comment_on_issue(number: int, text: str) -> str:
    """Write a comment on an issue."""
    return "ok"


@tool(effect="read")
def list_commits(branch: str, author: str | None = None, limit: int = 10) -> str:
    """List the commits of a branch.

    Args:
        branch: The branch.
        author: Only those of this person.
        limit: At most so many.
    """
    return "none"


@tool(effect="write")
def commit_files(message: str) -> str:
    """Commit the changed files.

    Args:
        message: The commit message.
    """
    return "ok"


GIT = Domain(
    [merge_pull_request, create_branch, delete_branch, comment_on_issue, list_commits, commit_files],
    """
Squash and merge 482 => merge_pull_request(number=482, method="squash")
Merge pull request 482 => merge_pull_request(number=482)
Merge #482 with rebase => merge_pull_request(number=482, method="rebase")
Merge pull requests 482 and 483 => merge_pull_request(number=482); merge_pull_request(number=483)
Merge 482 and delete the branch feature/login => merge_pull_request(number=482); delete_branch(name="feature/login")
Merge 482 once the tests pass =>
Don't merge 482 =>
Create a branch named fix-typo => create_branch(name="fix-typo")
Create the branch fix-typo from develop => create_branch(name="fix-typo", base="develop")
Delete the branch feature/login => delete_branch(name="feature/login")
Delete branches feature/a and feature/b => delete_branch(name="feature/a"); delete_branch(name="feature/b")
Delete all branches but main =>
Delete every merged branch =>
Comment on issue 77: "Thanks, fixed" => comment_on_issue(number=77, text="Thanks, fixed")
Write the comment 'Looks good' on issue 12 => comment_on_issue(number=12, text="Looks good")
Comment on issue 77 =>
List the commits of main => list_commits(branch="main")
List the last 3 commits of the branch develop => list_commits(branch="develop", limit=3)
Commit the changed files with the message 'Fix the typo' => commit_files(message="Fix the typo")
Commit =>
""",
)


@tool(effect="danger")
def refund_order(order_id: str) -> str:
    """Refund an order.

    Args:
        order_id: Id of the order, like A-55021.
    """
    return "ok"


@tool(effect="read")
def order_status(order_id: str) -> str:
    """Look up the status of an order."""
    return "shipped"


@tool
def place_order(product: str, quantity: int = 1) -> str:
    """Order a product.

    Args:
        product: The product.
        quantity: How many pieces.
    """
    return "ok"


@tool
def change_address(order_id: str, address: str) -> str:
    """Change the delivery address of an order."""
    return "ok"


@tool
def cancel_order(order_id: str, reason: str = "") -> str:
    """Cancel an order.

    Args:
        order_id: Id of the order.
        reason: Why it is cancelled.
    """
    return "ok"


ORDERS = Domain(
    [refund_order, order_status, place_order, change_address, cancel_order],
    """
Refund order A-55021 => refund_order(order_id="A-55021")
Refund 19.90 of order A-55021 =>
Refund half of the order A-55021 =>
Refund A-55021 and A-55022 => refund_order(order_id="A-55021"); refund_order(order_id="A-55022")
Refund everything but A-55021 =>
Where is order A-55021? => order_status(order_id="A-55021")
What is the status of A-55021 and A-55030? => order_status(order_id="A-55021"); order_status(order_id="A-55030")
Order 3 notebooks => place_order(product="notebooks", quantity=3)
Order a coffee grinder => place_order(product="coffee grinder")
Order two desk lamps and one chair => place_order(product="desk lamps", quantity=2); place_order(product="chair", quantity=1)
Order a lamp for at most 40 euros =>
Change the address of A-55021 to '5 Mill Lane, York' => change_address(order_id="A-55021", address="5 Mill Lane, York")
Cancel order A-55021 => cancel_order(order_id="A-55021")
Cancel A-55021 because 'it is late' => cancel_order(order_id="A-55021", reason="it is late")
Cancel the order A-55021, and refund A-55022 => cancel_order(order_id="A-55021"); refund_order(order_id="A-55022")
Cancel item 2 of order A-55021 =>
Do I have to cancel A-55021? =>
Cancel my order =>
""",
)


@tool(effect="write")
def send_mail(to: str, subject: str = "", body: str = "") -> str:
    """Send a mail.

    Args:
        to: Address.
        subject: The subject.
        body: The text.
    """
    return "ok"


@tool(effect="read")
def search_mail(text: str, sender: str | None = None) -> str:
    """Search the mailbox.

    Args:
        text: What to look for.
        sender: Who sent it.
    """
    return "none"


@tool(effect="write")
def archive_mail(mail_id: int) -> str:
    """Archive a mail."""
    return "ok"


@tool(effect="danger")
def delete_file(path: str) -> str:
    """Delete a file."""
    return "ok"


@tool(effect="write")
def copy_file(source: str, target: str) -> str:
    """Copy a file."""
    return "ok"


@tool(effect="read")
def read_file(path: str) -> str:
    """Read a file."""
    return "text"


@tool(effect="write")
def write_file(path: str, text: str) -> str:
    """Write a text into a file."""
    return "ok"


@tool
def rename_file(old: str, new: str) -> str:
    """Rename a file.

    Args:
        old: Old name.
        new: New name.
    """
    return "ok"


OFFICE = Domain(
    [send_mail, search_mail, archive_mail, delete_file, copy_file, read_file, write_file, rename_file],
    """
Send a mail to eva@example.org => send_mail(to="eva@example.org")
Send a mail to eva@example.org with the subject 'Lunch' and the text 'At noon?' => send_mail(to="eva@example.org", subject="Lunch", body="At noon?")
Mail tom@example.org that the meeting is moved. => send_mail(to="tom@example.org", body="the meeting is moved")
Send a mail to eva@example.org with the file report.pdf =>
Search my mailbox for 'invoice' => search_mail(text="invoice")
Search the mails from Eva for "contract" => search_mail(text="contract", sender="Eva")
Archive mail 318 => archive_mail(mail_id=318)
Archive the mails 318 and 319 => archive_mail(mail_id=318); archive_mail(mail_id=319)
Archive mails older than 30 days =>
Delete the file notes/old.txt => delete_file(path="notes/old.txt")
Delete a.txt, b.txt and c.txt => delete_file(path="a.txt"); delete_file(path="b.txt"); delete_file(path="c.txt")
Delete all files except notes.txt =>
Delete line 3 of notes.txt =>
Do not delete notes.txt =>
Copy report.pdf to backup/report.pdf => copy_file(source="report.pdf", target="backup/report.pdf")
Copy report.pdf =>
Read notes.txt => read_file(path="notes.txt")
Read README.md and setup.py => read_file(path="README.md"); read_file(path="setup.py")
Write 'hello' into greeting.txt => write_file(path="greeting.txt", text="hello")
Rename draft.md to final.md => rename_file(old="draft.md", new="final.md")
Rename draft.md =>
""",
)


@tool
def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


@tool
def multiply(a: float, b: float) -> float:
    """Multiply two numbers."""
    return a * b


@tool
def divide(dividend: float, divisor: float) -> float:
    """Divide a number by another.

    Args:
        dividend: What is divided.
        divisor: What it is divided by.
    """
    return dividend / divisor


@tool
def square_root(number: float) -> float:
    """Return the square root of a number."""
    return number**0.5


@tool
def convert_length(
    value: float, from_unit: Literal["km", "mile", "metre"], to_unit: Literal["km", "mile", "metre"]
) -> str:
    """Convert a length between units."""
    return "1"


@tool(effect="read")
def get_weather(city: str, day: str | None = None) -> str:
    """Tell the weather in a city.

    Args:
        city: The city.
        day: Day, YYYY-MM-DD.
    """
    return "12 degrees, rain"


@tool
def book_table(restaurant: str, people: int, time: str) -> str:
    """Book a table.

    Args:
        restaurant: Name of the restaurant.
        people: Number of guests.
        time: HH:MM, 24 hours.
    """
    return "ok"


@tool(effect="read")
def phone_number(person: str) -> str:
    """Look up the phone number of a person."""
    return "555-0142"


@tool
def translate(text: str, language: str) -> str:
    """Translate a text.

    Args:
        text: The text.
        language: Target language.
    """
    return "bonjour"


EVERYDAY = Domain(
    [add, multiply, divide, square_root, convert_length, get_weather, book_table, phone_number, translate],
    """
What is 2 plus 3? => add(a=2, b=3)
Add 14 and 28 => add(a=14, b=28)
How much is 12.5 + 7? => add(a=12.5, b=7)
What is 6 times 7? => multiply(a=6, b=7)
Multiply 1.5 by 4 => multiply(a=1.5, b=4)
Divide 144 by 12 => divide(dividend=144, divisor=12)
What is 10 divided by 4? => divide(dividend=10, divisor=4)
Square root of 81 => square_root(number=81)
What is 2 plus 3 plus 4? =>
What is 7 minus 3? =>
Convert 5 km to miles => convert_length(value=5, from_unit="km", to_unit="mile")
Convert 300 metres to km => convert_length(value=300, from_unit="metre", to_unit="km")
What's the weather in Rome? => get_weather(city="Rome")
Weather in Oslo and Bergen tomorrow => get_weather(city="Oslo", day="2026-03-12"); get_weather(city="Bergen", day="2026-03-12")
Will it rain in London? => get_weather(city="London")
Book a table at Da Mario for 4 people at 19:30 => book_table(restaurant="Da Mario", people=4, time="19:30")
Book a table at 'Blue Door' for two at 8 pm => book_table(restaurant="Blue Door", people=2, time="20:00")
Book a table at Da Mario for 4 people at 19:30 on 2026-03-14 =>
Book a table for 4 people =>
What is the phone number of Anna Berg? => phone_number(person="Anna Berg")
Translate 'good morning' to French => translate(text="good morning", language="French")
""",
)


@tool
def lend_book(title: str, member: str, days: int = 14) -> str:
    """Lend a book to a member.

    Args:
        title: Title of the book.
        member: Name of the member.
        days: Number of days.
    """
    return "ok"


@tool
def return_book(title: str) -> str:
    """Take a book back."""
    return "ok"


@tool
def extend_loan(loan_id: str, days: int) -> str:
    """Extend a loan.

    Args:
        loan_id: Id of the loan, like L-100.
        days: By so many days.
    """
    return "ok"


@tool(effect="read")
def find_book(title: str, author: str | None = None) -> str:
    """Find a book in the library."""
    return "shelf 3"


@tool
def register_member(name: str, email: str, newsletter: bool = True) -> str:
    """Register a member of the library.

    Args:
        name: Full name.
        email: Mail address.
        newsletter: Whether the member gets the newsletter.
    """
    return "M-1"


@tool
def remove_member(member_id: int) -> str:
    """Remove a member."""
    return "ok"


LIBRARY = Domain(
    [lend_book, return_book, extend_loan, find_book, register_member, remove_member],
    """
Lend 'Dune' to Ada Lovelace => lend_book(title="Dune", member="Ada Lovelace")
Lend "Emma" to Tom Hale for 21 days => lend_book(title="Emma", member="Tom Hale", days=21)
Lend "Emma" to Tom Hale for three weeks =>
Lend the book 'Dune' to Ada and 'Emma' to Tom => lend_book(title="Dune", member="Ada"); lend_book(title="Emma", member="Tom")
Take back 'Dune' => return_book(title="Dune")
Take the book "Emma" back, please => return_book(title="Emma")
Extend L-118 by 7 days => extend_loan(loan_id="L-118", days=7)
Extend loan L-118 by ten days => extend_loan(loan_id="L-118", days=10)
Extend L-118 =>
Extend L-118 to 2026-04-01 =>
Extend all loans by 7 days =>
Could you extend L-118 by 7 days? => extend_loan(loan_id="L-118", days=7)
Can I extend L-118 by 7 days? =>
Find the book 'Middlemarch' => find_book(title="Middlemarch")
Find "Persuasion" by Jane Austen in the library => find_book(title="Persuasion", author="Jane Austen")
Do you have the book 'Ulysses'? => find_book(title="Ulysses")
Register Lena Kurz as a member, lena@example.org => register_member(name="Lena Kurz", email="lena@example.org")
Register the member Tom Hale with the email tom@example.org, without the newsletter => register_member(name="Tom Hale", email="tom@example.org", newsletter=False)
Register Tom Hale =>
Remove member 4417 => remove_member(member_id=4417)
Remove the members 4417 and 4418 => remove_member(member_id=4417); remove_member(member_id=4418)
Remove either member 4417 or 4418 =>
Remove member 4417 from the newsletter =>
Remove the member Ada Lovelace =>
""",
)


def rent_car(city: str, start: str, end: str, category: Literal["small", "large", "van"] = "small") -> str:
    """Rent a car.

    Args:
        city: Where it is picked up.
        start: First day, YYYY-MM-DD.
        end: Last day, YYYY-MM-DD.
        category: Size of the car.
    """
    return "R-1"


def buy_ticket(film: str, seats: int, time: str) -> str:
    """Buy tickets for a film.

    Args:
        film: Title of the film.
        seats: Number of seats.
        time: Start, HH:MM.
    """
    return "ok"


def start_timer(minutes: int, label: str = "") -> str:
    """Start a timer.

    Args:
        minutes: Minutes.
        label: What it is for.
    """
    return "ok"


def log_run(distance: float, minutes: float) -> str:
    """Log a run.

    Args:
        distance: Distance in km.
        minutes: Duration in minutes.
    """
    return "ok"


def pay_bill(company: str, amount: float) -> str:
    """Pay a bill.

    Args:
        company: Who is paid.
        amount: Amount in euros.
    """
    return "ok"


def opening_hours(shop: str) -> str:
    """Tell when a shop opens and closes."""
    return "9 to 18"


def stock_price(symbol: str) -> float:
    """Return the price of a share.

    Args:
        symbol: Symbol, like ACME.
    """
    return 4.25


def exchange(amount: float, source: str, target: str) -> float:
    """Convert an amount of money.

    Args:
        amount: The amount.
        source: Currency, as a three-letter code.
        target: Currency, as a three-letter code.
    """
    return 1.5


def subtract(a: float, b: float) -> float:
    """Subtract b from a."""
    return a - b


ERRANDS = Domain(
    [rent_car, buy_ticket, start_timer, log_run, pay_bill, opening_hours, stock_price, exchange, subtract],
    """
Rent a car in Lisbon from 2026-05-02 to 2026-05-06 => rent_car(city="Lisbon", start="2026-05-02", end="2026-05-06")
Rent a large car in Graz from 2026-05-02 until 2026-05-06 => rent_car(city="Graz", start="2026-05-02", end="2026-05-06", category="large")
Rent a car in Lisbon from 2026-05-02 =>
Rent a car in Lisbon with a child seat from 2026-05-02 to 2026-05-06 =>
Rent a van or a large car in Graz from 2026-05-02 to 2026-05-06 =>
Buy 2 tickets for the film 'Metropolis' at 20:15 => buy_ticket(film="Metropolis", seats=2, time="20:15")
Buy three seats for 'Metropolis' at 8 pm => buy_ticket(film="Metropolis", seats=3, time="20:00")
Buy a ticket for 'Metropolis' =>
Buy 2 tickets for 'Metropolis' at 20:15 on 2026-03-14 =>
Start a timer of 12 minutes => start_timer(minutes=12)
Start a timer for 30 seconds =>
Start a 5 minutes timer => start_timer(minutes=5)
Start timers of 5 and 10 minutes => start_timer(minutes=5); start_timer(minutes=10)
Log a run of 8 km in 45 minutes => log_run(distance=8, minutes=45)
Log a run of 45 minutes over 8.5 km => log_run(distance=8.5, minutes=45)
Log a run of 5 miles in 45 minutes =>
Log a run of 8 km =>
Pay 89.90 euros to Telekom => pay_bill(company="Telekom", amount=89.9)
Pay the bill of Telekom, 89.90 => pay_bill(company="Telekom", amount=89.9)
Pay 89.90 dollars to Telekom =>
Pay Telekom =>
Pay at most 90 euros to Telekom =>
When does the bakery open? => opening_hours(shop="bakery")
When does the pharmacy close? => opening_hours(shop="pharmacy")
What is the price of ACME shares? => stock_price(symbol="ACME")
Convert 100 dollars to euros => exchange(amount=100, source="USD", target="EUR")
Convert 20 EUR to GBP => exchange(amount=20, source="EUR", target="GBP")
What is 10 minus 4? => subtract(a=10, b=4)
Subtract 3 from 10 => subtract(a=10, b=3)
What is 10 - 4? => subtract(a=10, b=4)
""",
)


def post_message(channel: str, text: str) -> str:
    """Post a message in a channel.

    Args:
        channel: Name of the channel.
        text: The message.
    """
    return "ok"


def mute_channel(channel: str, hours: int | None = None) -> str:
    """Mute a channel.

    Args:
        channel: Name of the channel.
        hours: For so many hours.
    """
    return "ok"


def add_member(team: str, person: str, role: Literal["member", "admin"] = "member") -> str:
    """Add a person to a team."""
    return "ok"


def archive_project(project: str, keep_files: bool = True) -> str:
    """Archive a project.

    Args:
        project: Name of the project.
        keep_files: Whether its files are kept.
    """
    return "ok"


@tool(effect="read")
def search_messages(text: str, channel: str | None = None) -> str:
    """Search the messages.

    Args:
        text: What to look for.
        channel: Only in this channel.
    """
    return "none"


@tool(effect="read")
def list_members(team: str) -> str:
    """List the members of a team."""
    return "none"


@tool(effect="danger")
def rename_channel(channel: str, name: str) -> str:
    """Rename a channel.

    Args:
        channel: The channel.
        name: Its new name.
    """
    return "ok"


@tool(effect="write")
def track_time(project: str, hours: float, date: str | None = None) -> str:
    """Record working time on a project.

    Args:
        project: Name of the project.
        hours: Number of hours.
        date: Day, YYYY-MM-DD.
    """
    return "ok"


TEAM = Domain(
    [
        post_message,
        mute_channel,
        add_member,
        archive_project,
        search_messages,
        list_members,
        rename_channel,
        track_time,
    ],
    """
Post 'Release is out' in the channel general => post_message(channel="general", text="Release is out")
Post the message "Lunch?" to random => post_message(channel="random", text="Lunch?")
Post a message in general =>
Post 'Hi' in general and random => post_message(channel="general", text="Hi"); post_message(channel="random", text="Hi")
Mute the channel random => mute_channel(channel="random")
Mute random for 8 hours => mute_channel(channel="random", hours=8)
Mute random until Friday =>
Unmute random =>
Add Maria to the team platform => add_member(team="platform", person="Maria")
Add Jonas Weber to the team platform as admin => add_member(team="platform", person="Jonas Weber", role="admin")
Add Maria and Jonas to the team platform => add_member(team="platform", person="Maria"); add_member(team="platform", person="Jonas")
Add somebody to the team platform =>
Remove Maria from the team platform =>
Archive the project Apollo => archive_project(project="Apollo")
Archive the project Apollo without keeping the files => archive_project(project="Apollo", keep_files=False)
Archive every project but Apollo =>
Archive Apollo in two weeks =>
Search the messages for 'budget' => search_messages(text="budget")
Search for "budget" in the channel finance => search_messages(text="budget", channel="finance")
Who is a member of the team platform? => list_members(team="platform")
List the members of platform => list_members(team="platform")
Rename the channel random to watercooler => rename_channel(channel="random", name="watercooler")
Rename random =>
Record 3.5 hours on the project Apollo => track_time(project="Apollo", hours=3.5)
Record 2 hours on Apollo for 2026-03-10 => track_time(project="Apollo", hours=2, date="2026-03-10")
Record 40 minutes on Apollo =>
Record 2 hours on Apollo and 3 hours on Gemini => track_time(project="Apollo", hours=2); track_time(project="Gemini", hours=3)
""",
)

TUNING = {
    "home": HOME,
    "money": MONEY,
    "tickets": TICKETS,
    "calendar": CALENDAR,
    "deployments": DEPLOYMENTS,
    "git": GIT,
    "orders": ORDERS,
    "office": OFFICE,
    "everyday": EVERYDAY,
    "library": LIBRARY,
    "errands": ERRANDS,
    "team": TEAM,
}
