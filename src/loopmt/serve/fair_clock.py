"""Whose turn it is: an order of work in which every client gets an equal share, however much each one asks for."""

from __future__ import annotations

_MOST_CLIENTS = 1_000  # whose last turn is remembered before it is looked at whether it still matters


class FairClock:
    """Fair queueing (Demers, Keshav and Shenker, 1989), with the start of the work in service as virtual time.

    A turn is the virtual time at which a piece of work would be done if the clients took turns unit by unit. Work is
    done in the order of its turns, so who asks little is served soon, whoever else has filled the queue.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._charged: dict[str, float] = {}  # the last turn of each client

    def turn(self, client: str, work: float) -> float:
        """When work that arrives now has its turn."""
        turn = max(self._now, self._charged.get(client, 0.0)) + work
        self._charged[client] = turn
        if len(self._charged) > _MOST_CLIENTS:
            self._charged = {one: last for one, last in self._charged.items() if last > self._now}
        return turn

    def serve(self, turn: float, work: float) -> None:
        """That work begins."""
        self._now = max(self._now, turn - work)
