"""Two SuperNodes and a SuperLink in this process, to which things happen: runs end, nodes are killed, processes die.

Afterwards a fresh run of two rounds must get every answer at its first attempt, each the answer to its own question,
and nothing may be left of any message.
"""

from __future__ import annotations

import random
import time
from collections import Counter

import httpx
from flwr.common.constant import SubStatus
from flwr.supercore.constant import NodeStatus
from flwr.supercore.run import RunNotRunningException

from fedlearn import flower
from fedlearn.flower.replies import Replies, push
from tests.histories.supernode import COUNT, SAID, STEPS, TICK, Executor, SuperNode, question

CALLS = ("PullMessages", "GetRun", "GetFab", "PullObject", "ConfirmMessageReceived", "PushMessages", "PushObject")
SLACK = 0.5  # seconds between an executor's look at a message and its process's, on a busy machine
HAS_ENDED = (httpx.HTTPStatusError, RunNotRunningException)  # what a call raises when its run has ended
WELL = (None, True, 0.0)  # the fate of a process that answers at once and ends


class World:
    """Two nodes, and the run that they work for.

    Parameters
    ----------
    link
        The SuperLink, in which each world has nodes of its own.
    fate
        How each task goes, as for `Executor`.
    mended
        Whether the nodes handle one message at a time.
    patience
        Seconds that a fresh run waits for answers.
    """

    def __init__(self, link, *, fate=lambda: WELL, mended=True, patience=20.0):
        self.link, self.fate, self.mended, self.patience = link, fate, mended, patience
        self.grid = self.event = None
        self.keys = [self.link.register() for _ in range(2)]
        self.lives = [self.live(key, place) for place, key in enumerate(self.keys)]
        self.ids = [self.link.state.get_node_id_by_public_key(key) for key in self.keys]
        self.said = 0
        self.dead = []

    def live(self, key, place):
        """Begin a life of a node."""
        before = lambda name: self.happen(place, name)  # noqa: E731
        node = SuperNode(self.link, key, before=before, mended=self.mended)
        return node, Executor(node, lambda: self.fate(), before)

    def begin(self, event=None):
        """Begin a run, in which an event happens: (what, to which node's, step, after how many)."""
        self.grid, self.event = self.link.begin(), event
        self.replies = Replies(self.grid)

    def happen(self, place, name):
        """Let the event of this run happen where its step has come: the run ends, or the node is killed."""
        if self.event is None or self.event[1:3] != (place, name):
            return
        what, _, _, left = self.event
        self.event = (what, place, name, left - 1) if left else None
        if left:
            return
        if what == "end":
            self.link.end(self.grid)
        else:
            self.lives[place][0].is_killed = True

    def restart(self, places=()):
        """Begin a new life of each node that was killed, and of these."""
        for place, (node, executor) in enumerate(self.lives):
            if node.is_killed or place in places:
                node.kill()
                self.dead.append((node, executor))
                self.link.state.deactivate_node(self.ids[place])  # as a minute without a sign of life does
                self.lives[place] = self.live(self.keys[place], place)
                self.wait_until_online(place)

    def wait_until_online(self, place):
        """Wait until a node's new life is known; a node that is asked before is answered for as unavailable."""
        node, end = self.lives[place][0], time.monotonic() + self.patience
        while not self.link.state.get_node_info(node_ids=[self.ids[place]], statuses=[NodeStatus.ONLINE]):
            assert node.failed is None and time.monotonic() < end, node.failed
            time.sleep(TICK)

    def ask(self, **how):
        """Send each node a question; return the ids, with what was said."""
        flower.TaskIdentity.run_id = self.grid.run.run_id
        flower.TaskIdentity.node_id = flower.TaskIdentity.task_id = 1
        said = [f"{self.said + place}" for place in range(len(self.ids))]
        self.said += len(said)
        try:
            sent = push(self.grid, [question(*pair, **how) for pair in zip(self.ids, said, strict=True)])
        except HAS_ENDED:
            return {}  # the run has ended
        return {key: each for key, each in zip(sent, said, strict=True) if key}

    def answers(self, sent, *, seconds):
        """Return the answers that come within some seconds."""
        end, come = time.monotonic() + seconds, []
        while (missing := [key for key in sent if key not in {_of(each) for each in come}]) and time.monotonic() < end:
            try:
                come += self.replies.pull(missing)
            except HAS_ENDED:
                break
            time.sleep(4 * TICK)
        return come

    def wrong(self, *, seconds=0.0):
        """Return what is wrong with a fresh run of two rounds, whose tasks take some seconds."""
        self.begin()
        self.fate, found = lambda: (None, True, seconds), []
        for node, executor in self.lives:
            executor.is_away = False
            found += [f"the SuperNode failed: {node.failed!r}"] if node.failed else []
        for number in range(4):  # two rounds: ready, and train
            sent = self.ask(ttl=self.patience, is_large=number == 3)
            come = self.answers(sent, seconds=self.patience)
            said = {_of(each): dict(each.content[SAID]) if each.has_content() else str(each.error) for each in come}
            expected = {key: {SAID: each, COUNT: number + 1} for key, each in sent.items()}
            if said != expected:
                return [*found, f"message {number}: {said} in place of {expected}"]
        end = time.monotonic() + self.patience
        while any(node.left for node, _ in self.lives) and time.monotonic() < end:
            time.sleep(TICK)
        return found + [f"left: {node.left}" for node, _ in self.lives if node.left] + self.of_tasks()

    def of_tasks(self):
        """Return what is wrong with the tasks: a message that was begun twice, or after it had expired."""
        executors = [executor for _, executor in [*self.lives, *self.dead]]
        begun = [each for executor in executors for each in executor.begun]
        found = [f"{executor.failed!r}" for executor in executors if executor.failed]
        often = Counter(said for said, _ in begun)
        found += [f"{said} was begun {count} times" for said, count in often.items() if count > 1]
        return found + [f"{said} was begun {late:.2f} s late" for said, late in begun if late > SLACK]

    def end(self):
        """End all threads."""
        for node, executor in self.lives:
            executor.stopped = True
            node.kill()
            executor.join(30)


def go_through(world, seed):
    """Let a seeded history happen: what happens follows from the seed, but for the threads' order."""
    rng = random.Random(seed)

    def fate():
        if rng.random() < 0.5:
            return WELL
        return rng.choice([None, *STEPS]), rng.random() < 0.5, rng.choice([0.0, 0.02, 0.2])

    world.fate = fate
    for _ in range(rng.randint(2, 4)):
        step = rng.choice([*CALLS, *STEPS, "ConfirmMessageReceived"])
        world.begin((rng.choice(["end", "end", "kill"]), rng.randrange(2), step, rng.randrange(2)))
        for _, executor in world.lives:
            executor.is_away = rng.random() < 0.2
        for _ in range(rng.randint(1, 3)):
            sent = world.ask(ttl=rng.choice([0.1, 0.3, 60.0]), is_large=rng.random() < 0.2)
            if rng.random() < 0.7:
                world.answers(sent, seconds=rng.choice([0.0, 0.1, 0.3]))
        if rng.random() < 0.8:
            world.link.end(world.grid, rng.choice([SubStatus.FAILED, SubStatus.STOPPED, SubStatus.COMPLETED]))
        world.event = None
        world.restart([place for place in range(2) if rng.random() < 0.1])


def _of(reply):
    return reply.metadata.reply_to_message_id
