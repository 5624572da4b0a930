"""The embedded model on plain queries, with one tool and with all of them; its word tables hold what these need."""

import datetime

import pytest

from agentkit import JsonAgent, tool
from agentkit.models.offline import plan

WEDNESDAY = datetime.date(2024, 5, 15)


def offer(name, description, properties, *, optional=()):
    required = [name for name in properties if name not in optional]
    schema = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


def text(description, **more):
    return {"type": "string", "description": description, **more}


def number(description, type="integer"):
    return {"type": type, "description": description}


CODE = "Three-letter code of the currency"
STATES = ["open", "shipped", "cancelled"]
DAY = "Day, YYYY-MM-DD"
OFFERED = [
    offer("find_flights", "Find flights.", {"origin": text("Where it starts"), "destination": text("Where it ends"), "date": text(DAY)}, optional=["date"]),
    offer("book_table", "Reserve a table at a restaurant.", {"restaurant": text("Its name"), "people": number("Number of guests"), "time": text("HH:MM, 24 h")}),
    offer("get_stock", "Get the stock of an item.", {"sku": text("The item's number"), "warehouse": text("City of the warehouse")}, optional=["warehouse"]),
    offer("convert_currency", "Convert an amount of money.", {"amount": number("Amount", "number"), "from_currency": text(CODE), "to_currency": text(CODE)}),
    offer("send_email", "Send an email.", {"to": text("Address"), "subject": text("Subject"), "body": text("Text")}, optional=["subject", "body"]),
    offer("translate_text", "Translate a text.", {"text": text("The text"), "language": text("Target language")}),
    offer("search_books", "Search the library for books.", {"query": text("Title or topic"), "author": text("Author"), "year": number("Year")}, optional=["author", "year"]),
    offer("read_file", "Read a file.", {"path": text("Path of the file")}),
    offer("calculate", "Compute an arithmetic expression.", {"expression": text("The expression")}),
    offer("fetch_page", "Download a web page.", {"url": text("Address of the page")}),
    offer("add_event", "Add an event to the calendar.", {"title": text("Title"), "start": text(DAY), "end": text(DAY)}, optional=["end"]),
    offer("list_orders", "List a customer's orders.", {"customer": text("Name"), "since": text(DAY), "status": text("State", enum=STATES)}, optional=["since", "status"]),
    offer("list_events", "List the events.", {"end": text(DAY), "start": text(DAY)}, optional=["start", "end"]),
    offer("set_timer", "Set a timer.", {"minutes": number("Minutes")}),
    offer("get_news", "Get the news about a topic.", {"topic": text("Topic"), "limit": number("Number of articles")}, optional=["limit"]),
    offer("restart_service", "Restart a service.", {"service": text("Name of the service"), "host": text("Host")}, optional=["host"]),
    offer("get_exchange_rate", "Exchange rate of a currency.", {"currency": text("Currency, as a code")}),
    offer("get_time", "Get the current time in a city.", {"city": text("City")}),
    offer("tell_price", "Look up the price of an item.", {"item": text("The item")}),
    offer("delete_user", "Delete a user account.", {"user_id": text("Id of the user")}),
    offer("get_sales", "Sales of a month.", {"month": text("Month"), "year": number("Year")}, optional=["year"]),
    offer("call_contact", "Call a person on the phone.", {"name": text("Name of the person")}),
    offer("get_weather", "Get the weather of a city on a day.", {"city": text("City"), "day": text(DAY)}, optional=["day"]),
    offer("random_number", "Draw a random number.", {"minimum": number("Lower bound"), "maximum": number("Upper bound")}),
    offer("count_words", "Count the words of a text.", {"text": text("Text")}),
    offer("release_status", "Status of a release on a host.", {"host": text("Host"), "version": text("Version")}),
    offer("store_value", "Store a value under a key.", {"key": text("Key"), "value": {"description": "Any value"}}),
    offer("add_task", "Add a task.", {"task": text("Task"), "due": text("Due")}, optional=["due"]),
]  # fmt: skip
QUERIES = [
    ("Find flights from Oslo to Rome on 2024-07-01", "find_flights", {"origin": "Oslo", "destination": "Rome", "date": "2024-07-01"}),
    ("flights to Rome from Oslo", "find_flights", {"origin": "Oslo", "destination": "Rome"}),
    ("I need flights from New York to San Francisco tomorrow", "find_flights", {"origin": "New York", "destination": "San Francisco", "date": "2024-05-16"}),
    ("Book a table at Da Mario for 4 people at 19:30", "book_table", {"restaurant": "Da Mario", "people": 4, "time": "19:30"}),
    ("reserve a table for 2 at 'Blue Door' at 8 pm", "book_table", {"restaurant": "Blue Door", "people": 2, "time": "20:00"}),
    ("What is the stock of A-100 in Berlin?", "get_stock", {"sku": "A-100", "warehouse": "Berlin"}),
    ("stock of 4711", "get_stock", {"sku": "4711"}),
    ("Convert 100 dollars to euros", "convert_currency", {"amount": 100, "from_currency": "USD", "to_currency": "EUR"}),
    ("convert 250 EUR to JPY", "convert_currency", {"amount": 250, "from_currency": "EUR", "to_currency": "JPY"}),
    ("Send an email to ada@example.com with the subject 'Lunch'", "send_email", {"to": "ada@example.com", "subject": "Lunch"}),
    ("mail bob@example.org the text 'See you'", "send_email", {"to": "bob@example.org", "body": "See you"}),
    ("Translate 'good morning' to French", "translate_text", {"text": "good morning", "language": "French"}),
    ("translate 'thank you' into Japanese", "translate_text", {"text": "thank you", "language": "Japanese"}),
    ("Search for books by Jane Austen about 'marriage'", "search_books", {"query": "marriage", "author": "Jane Austen"}),
    ("search the library for 'dune' from 1965", "search_books", {"query": "dune", "year": 1965}),
    ("Read notes/todo.txt", "read_file", {"path": "notes/todo.txt"}),
    ("Read src/app/main-page.test.html, please", "read_file", {"path": "src/app/main-page.test.html"}),
    ("read the file README.md please", "read_file", {"path": "README.md"}),
    ("Read ~/notes/todo.txt", "read_file", {"path": "~/notes/todo.txt"}),
    ("Read the Makefile", "read_file", {"path": "Makefile"}),
    ("Compute 3 * (4 + 5)", "calculate", {"expression": "3 * (4 + 5)"}),
    ("what is 2**10?", "calculate", {"expression": "2**10"}),
    ("Download https://example.org/index.html", "fetch_page", {"url": "https://example.org/index.html"}),
    ("get the page www.example.com", "fetch_page", {"url": "www.example.com"}),
    ("Add an event 'Fair' from 2024-06-01 to 2024-06-03", "add_event", {"title": "Fair", "start": "2024-06-01", "end": "2024-06-03"}),
    ("add the event 'Party' on June 7, 2024", "add_event", {"title": "Party", "start": "2024-06-07"}),
    ("List the orders of Ada Lovelace since 2024-01-01", "list_orders", {"customer": "Ada Lovelace", "since": "2024-01-01"}),
    ("show the open orders of Bob", "list_orders", {"customer": "Bob", "status": "open"}),
    ("list the events since 2024-01-01", "list_events", {"start": "2024-01-01"}),
    ("list the events after 2024-01-01", "list_events", {"start": "2024-01-01"}),
    ("list the events until 2024-01-01", "list_events", {"end": "2024-01-01"}),
    ("list the events before 2024-01-01", "list_events", {"end": "2024-01-01"}),
    ("Set a timer for ten minutes", "set_timer", {"minutes": 10}),
    ("timer 25 minutes", "set_timer", {"minutes": 25}),
    ("news about solar power", "get_news", {"topic": "solar power"}),
    ("Get 5 articles of news about Mars", "get_news", {"topic": "Mars", "limit": 5}),
    ("restart the service billing-api", "restart_service", {"service": "billing-api"}),
    ("exchange rate of the yen", "get_exchange_rate", {"currency": "JPY"}),
    ("What time is it in Buenos Aires?", "get_time", {"city": "Buenos Aires"}),
    ("current time in tokyo", "get_time", {"city": "tokyo"}),
    ("How much does green tea cost?", "tell_price", {"item": "green tea"}),
    ("green tea price", "tell_price", {"item": "green tea"}),
    ("price of a MacBook Pro", "tell_price", {"item": "MacBook Pro"}),
    ("Look the price of a chair up", "tell_price", {"item": "chair"}),
    ("Delete the user with id u-17", "delete_user", {"user_id": "u-17"}),
    ("remove user 42", "delete_user", {"user_id": "42"}),
    ("Sales in April", "get_sales", {"month": "April"}),
    ("Call Ada Lovelace on the phone", "call_contact", {"name": "Ada Lovelace"}),
    ("Ring the person Bob on the phone", "call_contact", {"name": "Bob"}),
    ("Will the weather be good in Rome on 2024-05-20?", "get_weather", {"city": "Rome", "day": "2024-05-20"}),
    ("forecast for Oslo tomorrow", "get_weather", {"city": "Oslo", "day": "2024-05-16"}),
    ("Rome weather", "get_weather", {"city": "Rome"}),
    ("New York weather", "get_weather", {"city": "New York"}),
    ("Draw a random number between 3 and 9", "random_number", {"minimum": 3, "maximum": 9}),
    ("a random number from 1 to 6", "random_number", {"minimum": 1, "maximum": 6}),
    ("Count the words of 'to be or not to be'", "count_words", {"text": "to be or not to be"}),
    ("status of shop.example.com version 2.4.1", "release_status", {"host": "shop.example.com", "version": "2.4.1"}),
    ("status of version 2.4.1 on shop.example.com", "release_status", {"host": "shop.example.com", "version": "2.4.1"}),
    ("status of the host db-2 with version 7", "release_status", {"host": "db-2", "version": "7"}),
    ("store the value 'blue' under the key 'sky'", "store_value", {"key": "sky", "value": "blue"}),
    ("store the value 5 under the key 'rows'", "store_value", {"key": "rows", "value": 5}),
    ("Add the task 'Pay the rent' due 2024-06-01", "add_task", {"task": "Pay the rent", "due": "2024-06-01"}),
]  # fmt: skip


@pytest.mark.parametrize("is_alone", [True, False], ids=["one tool", "all tools"])
@pytest.mark.parametrize(("query", "name", "arguments"), QUERIES, ids=[query[0] for query in QUERIES])
def test_a_plain_query_becomes_its_call(query, name, arguments, is_alone):
    offered = [tool for tool in OFFERED if tool["function"]["name"] == name or not is_alone]
    assert plan(query, offered, WEDNESDAY) == [(name, arguments)]


@pytest.mark.parametrize(
    "query", ["Restart checkout on node-3", "Restart on node-3 the checkout", "Restart node-3 checkout"]
)
def test_an_identifier_that_begins_with_a_parameters_name_goes_to_that_parameter(query):
    @tool(effect="write")
    def restart(service: str, node: str) -> str:
        """Restart a service on a node."""
        return f"{service} on {node}"

    result = JsonAgent(restart, model="offline").run(query)
    assert [each.value for each in result.calls if each.call.name == "restart"] == ["checkout on node-3"]
