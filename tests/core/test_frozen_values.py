"""A value is a frozen dataclass: whatever the standard decorator gives, this one gives too."""

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

import pytest

from agentkit.core.values import frozen

T = TypeVar("T")
Maker = Callable[..., Any]


def standard(kind: Any = None, /, *, slots: bool = True, **options: bool) -> Any:
    """Do the same with the standard decorator."""
    return dataclass(frozen=True, slots=slots, **options) if kind is None else dataclass(frozen=True, slots=slots)(kind)


def make_plain(decorate: Maker, **options: bool) -> Any:
    @decorate(**options)
    class Plain(Generic[T]):
        """A class with each kind of field."""

        kind: ClassVar[str] = "plain"
        a: int
        b: str = "b"
        c: list[int] = field(default_factory=list)
        d: Any = field(default=None, repr=False, compare=False)
        e: float = field(default=1.5, kw_only=True)
        f: int = field(init=False, default=7)
        g: list[int] = field(init=False, default_factory=list)

    return Plain


def make_ending(decorate: Maker) -> Any:
    @decorate
    class Ending:
        a: int
        twice: int = field(init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "twice", 2 * self.a)

    return Ending


def make_empty(decorate: Maker) -> Any:
    @decorate
    class Empty:
        """Has no field."""

    return Empty


@frozen
class Stored:
    a: int
    b: list[int] = field(default_factory=list)


@frozen(slots=False)
class StoredOpen:
    a: int
    b: list[int] = field(default_factory=list)


@pytest.fixture(params=[True, False], ids=["slots", "dict"])
def both(request):
    """The same class by either decorator."""
    return make_plain(frozen, slots=request.param), make_plain(standard, slots=request.param)


def test_its_parameters_are_those_of_a_dataclass(both):
    ours, theirs = both
    assert str(inspect.signature(ours)) == str(inspect.signature(theirs))
    assert ours.__init__.__annotations__.keys() == theirs.__init__.__annotations__.keys()
    assert ours.__match_args__ == theirs.__match_args__
    assert [entry.name for entry in dataclasses.fields(ours)] == [entry.name for entry in dataclasses.fields(theirs)]
    assert repr(ours.__dataclass_params__) == repr(theirs.__dataclass_params__)
    assert hasattr(ours(1), "__dict__") == hasattr(theirs(1), "__dict__")


@pytest.mark.parametrize("given", [(), (1, 2, 3, 4, 5), (1,), (1, "x", [2], "hidden")])
def test_its_instances_are_made_and_shown_alike(both, given):
    made = []
    for kind in both:
        try:
            made.append(repr(kind(*given)))
        except TypeError as error:
            made.append(str(error))
    assert made[0].replace("frozen", "") == made[1].replace("standard", "")


def test_equality_and_hash_are_those_of_the_compared_fields(both):
    for kind in both:
        one = kind(1, d=1)
        other = kind(1, d=2)
        assert one == other
        assert one != kind(2)
        assert one != kind(1, e=2.0)
        assert one.__eq__(1) is NotImplemented
        with pytest.raises(TypeError, match="unhashable"):
            hash(one)
    assert both[0](1) != both[1](1)
    assert hash(make_ending(frozen)(3)) == hash(make_ending(standard)(3))
    empty = make_empty(frozen)
    assert empty() == empty()
    assert hash(empty()) == hash(empty())


def test_each_instance_gets_a_default_of_its_own(both):
    for kind in both:
        assert kind(1).c == kind(1).g == []
        assert kind(1).c is not kind(1).c
        assert kind(1).g is not kind(1).g
        assert kind(1).f == 7


def test_nothing_of_it_can_be_changed(both):
    for kind in both:
        one = kind(1)
        for change in (
            lambda one=one: setattr(one, "a", 2),
            lambda one=one: setattr(one, "other", 2),
            lambda one=one: delattr(one, "a"),
        ):
            with pytest.raises((FrozenInstanceError, AttributeError, TypeError)) as raised:
                change()
            assert isinstance(raised.value, FrozenInstanceError) or kind is both[1]
        assert one.a == 1


def test_what_its_author_writes_in_it_runs():
    one = make_ending(frozen)(4)
    assert one.twice == 8

    @frozen
    class Own:
        a: int

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 1

    assert repr(Own(1)) == "own"
    assert Own(1) == Own(2)
    assert hash(Own(1)) == 1


def test_a_class_with_an_equality_of_its_own_has_the_hash_of_its_fields():
    def make(decorate: Maker) -> Any:
        @decorate
        class Own:
            a: int
            b: int = 2

            def __eq__(self, other: object) -> bool:
                return True

        return Own

    assert hash(make(frozen)(1)) == hash(make(standard)(1))


def test_without_equality_it_is_equal_to_itself_alone():
    @frozen(eq=False)
    class Unequal:
        a: int

    one = Unequal(1)
    assert one == one
    assert one != Unequal(1)
    assert {one}


@pytest.mark.parametrize("kind", [Stored, StoredOpen])
def test_it_is_copied_replaced_and_pickled(kind):
    one = kind(1, [2])
    assert dataclasses.replace(one, a=3) == kind(3, [2])
    assert dataclasses.asdict(one) == {"a": 1, "b": [2]}
    assert copy.copy(one) == copy.deepcopy(one) == pickle.loads(pickle.dumps(one)) == one
    assert copy.copy(one).b is one.b
    assert copy.deepcopy(one).b is not one.b
    match one:
        case kind(a, [b]):
            assert (a, b) == (1, 2)
        case _:
            pytest.fail("no match")


def test_its_text_may_hold_itself():
    one = Stored(1)
    one.b.append(one)  # type: ignore[arg-type]
    assert repr(one) == "Stored(a=1, b=[...])"


def test_it_can_be_derived_from():
    @frozen
    class Deeper(Stored):
        c: int = 3

    @dataclass(frozen=True)
    class Standard(Stored):
        c: int = 3

    class Named(Stored):
        pass

    for kind in (Deeper, Standard):
        assert (kind(1).a, kind(1).c) == (1, 3)
        assert kind(1) == kind(1)
        assert kind(1) != Stored(1)
        with pytest.raises(FrozenInstanceError):
            kind(1).c = 4
    named = Named(1)
    named.note = "a subclass may have more"
    assert named.note
    with pytest.raises(FrozenInstanceError):
        named.a = 2
    del named.note
