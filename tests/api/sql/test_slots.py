"""Who runs next: random histories against a model that says the rule in other words."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from api.sql.slots import Slots, Turn

PEOPLE = ("ann", "ben", "cem", "dee")
STEPS = st.lists(st.one_of(st.sampled_from(PEOPLE), st.integers(0, 30)), max_size=120)
"""A person who asks, or which of the turns that there are is left."""


def expected(waiting: list[Turn], running: list[Turn], served: list[str], at_once: int) -> Turn | None:
    """The turn that begins next, found by going through all that wait."""
    if len(running) >= at_once:
        return None
    has = Counter(str(turn.who) for turn in running)
    able = [turn for turn in waiting if has[str(turn.who)] < max(1, at_once - 1)]
    last = {who: number for number, who in enumerate(served, 1)}
    return min(able, key=lambda turn: (has[str(turn.who)], last.get(str(turn.who), 0)), default=None)


@given(STEPS, st.integers(1, 5))
def test_slots_are_shared_as_the_model_says(steps: list[str | int], at_once: int) -> None:
    slots = Slots(at_once, waiting=5, waiting_all=12)
    waiting: list[Turn] = []
    running: list[Turn] = []
    served: list[str] = []
    for step in steps:
        if isinstance(step, str):
            turn = slots.ask(step)
            full = len(waiting) >= 12 or sum(one.who == step for one in waiting) >= 5
            assert (turn is None) == full
            if turn is not None:
                waiting.append(turn)
        elif turns := [*running, *waiting]:
            turn = turns[step % len(turns)]
            (running if turn.runs else waiting).remove(turn)
            slots.leave(turn)
        for begun in slots.next_turns():
            turn = expected(waiting, running, served, at_once)
            # The model takes the first of several that are equal; two people never served are equal.
            assert turn is not None
            assert begun in waiting
            if begun is not turn:
                assert {begun.who, turn.who}.isdisjoint(served)
                assert sum(one.who == begun.who for one in running) == sum(one.who == turn.who for one in running)
            waiting.remove(begun)
            running.append(begun)
            served.append(str(begun.who))
            assert begun.runs
        assert expected(waiting, running, served, at_once) is None
        assert len(running) <= at_once
        assert max(Counter(one.who for one in running).values(), default=0) <= max(1, at_once - 1)


def test_whoever_asks_again_and_again_does_not_keep_another_waiting() -> None:
    slots = Slots(2)
    first, waits = slots.ask("ann"), slots.ask("ann")
    assert first is not None
    assert waits is not None
    assert slots.next_turns() == [first]
    others = [slots.ask("ben")]
    assert slots.next_turns() == others
    slots.leave(first)
    for who in ("cem", "dee", "eva"):  # each of them new; ann waits on, but is served before one comes back
        turn = slots.ask(who)
        assert turn is not None
        slots.next_turns()
        if turn.runs:
            slots.leave(turn)
    assert waits.runs or slots.next_turns() == [waits]


def test_nobody_takes_every_slot() -> None:
    slots = Slots(4)
    turns = [slots.ask("ann") for _ in range(10)]
    assert slots.next_turns() == turns[:3]
    other = slots.ask("ben")
    assert slots.next_turns() == [other]


def test_people_are_forgotten_once_there_are_too_many() -> None:
    slots = Slots(1)
    for number in range(1500):
        turn = slots.ask(number)
        assert turn is not None
        assert slots.next_turns() == [turn]
        slots.leave(turn)
    assert len(slots._people) <= 1001
    assert 1499 in slots._people
