"""Hold the latest committed round, and the rounds that are not stored yet."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from fedlearn.core.state import State
from fedlearn.core.state_files import pack_state
from fedlearn.runs.file_names import state_name
from fedlearn.runs.history import History, RoundRecord


@dataclass(frozen=True, slots=True)
class Committed:
    """The latest committed round, and the parts of it and of earlier rounds that are not stored yet.

    Parameters
    ----------
    state, history
        The state after the round, and all committed rounds.
    put_off
        The rounds at the end of the history that are not stored yet.
    states
        Round -> the state after it, for the rounds that were put off whose states a store may have to hold.
    """

    state: State
    history: History
    put_off: tuple[RoundRecord, ...] = ()
    states: Mapping[int, State] = field(default_factory=dict)

    def plus(self, state: State, record: RoundRecord, *, is_worked_on: bool) -> Committed:
        """Return the value with one more round, which is put off; the parameters are those of `RunStore.put_off`."""
        history, states = self.history.plus(record), self.states
        if not is_worked_on:
            states = {number: kept for number, kept in states.items() if number == history.best_round}
        if is_worked_on or record is history.best:
            states = {**states, record.round_number: state}
        return Committed(state, history, (*self.put_off, record), states)

    def packed_states(
        self, versions: Collection[int], tied: Mapping[str, str], unsent: State, frozen: str = ""
    ) -> dict[str, bytes]:
        """Return name -> content of the files of states that a store has to write.

        These are the latest state, the best one, and those after the rounds `versions`, on which nodes still work, as
        far as they are not stored yet; each with the arrays `unsent` of the model, or the digest `frozen` of those.
        """
        number = len(self.history.rounds)
        states = {**self.states, number: self.state}
        wanted = {*versions, self.history.best_round, number} & states.keys()
        return {
            state_name(version): pack_state({**unsent, **states[version]}, tied, frozen) for version in sorted(wanted)
        }
