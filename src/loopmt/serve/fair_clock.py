"""Fair queueing: an order of work in which every client gets an equal share."""

from __future__ import annotations

_MOST_CLIENTS = 1_000  # clients whose last turn is stored before outdated turns are removed


class FairClock:
    """Fair queueing (Demers, Keshav and Shenker, 1989), with the start of the work in service as virtual time.

    A turn is the virtual time at which work would finish if clients were served unit by unit in rotation. Work is done
    in the order of turns, so a client with little work is served soon, even if others have filled the queue.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._charged: dict[str, float] = {}  # the last turn of each client

    def turn(self, client: str, work: float) -> float:
        """The turn of work that arrives now."""
        turn = max(self._now, self._charged.get(client, 0.0)) + work
        self._charged[client] = turn
        if len(self._charged) > _MOST_CLIENTS:
            self._charged = {one: last for one, last in self._charged.items() if last > self._now}
        return turn

    def serve(self, turn: float, work: float) -> None:
        """Advance the clock when work begins."""
        self._now = max(self._now, turn - work)
