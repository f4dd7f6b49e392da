"""Flower's object store, changed so that a message's list of parts holds for that message only.

A message is announced as a tree of names, and sent name by name; a name is the SHA-256 of the object. Flower keeps each
object's children by the object's name, and refuses a message that gives an object other children than the first message
did. The server's next objects can be foretold, so a node that announces them with other children would end the run.
Here a tree is kept whole, with its root, which is a message, whose name cannot be foretold. All other objects have
bytes and no children, so two messages cannot contradict each other.

Written for flwr 1.41. Objects that an earlier SuperLink has stored are read as they were.
"""

from __future__ import annotations

import re
from typing import Any

from flwr.proto.message_pb2 import ObjectTree
from flwr.supercore.inflatable.inflatable_object import iterate_object_tree
from flwr.supercore.object_store.sql_object_store import SqlObjectStore
from flwr.supercore.state.schema.objectstore_models import ObjectChild, RunObject, StoredObject
from flwr.supercore.utils import uint64_to_int64
from sqlalchemy import delete, insert, select, update

TREE = "tree of "  # before a root's name: the object that holds its tree; no name of a part looks so
NAME = re.compile("[0-9a-f]{64}")

_get_object_tree = SqlObjectStore.get_object_tree


def keep_trees_whole() -> None:
    """Make all SQL object stores of this process keep a message's tree with the message."""
    SqlObjectStore.preregister = _preregister  # type: ignore[method-assign, assignment]
    SqlObjectStore.get_object_tree = _tree_of  # type: ignore[method-assign, assignment]
    SqlObjectStore.delete_objects_in_run = _delete_objects_in_run  # type: ignore[method-assign, assignment]


def _preregister(store: SqlObjectStore, run_id: int, object_tree: ObjectTree) -> list[str]:
    """Replace `SqlObjectStore.preregister`: store a message's tree, return the names of parts that are still to come.

    The number of statements does not depend on the number of names; Flower makes four for each name.

    Raises
    ------
    ValueError
        If a name is not a SHA-256, or the message was announced before with other parts.
    """
    root, told = object_tree.object_id, object_tree.SerializeToString(deterministic=True)
    parts = {part.object_id for part in iterate_object_tree(object_tree)} - {root}
    for name in (root, *parts):
        if not NAME.fullmatch(name):
            raise ValueError(f"{name[:80]!r} is not the name of an object")
    tree = TREE + root
    with store._mutation_session() as session:
        kept = session.scalar(select(StoredObject.content).where(StoredObject.object_id == tree))
        if kept is not None and kept != told:
            raise ValueError(f"message {root} was announced before with other parts")
        new = _new(store, StoredObject)
        row = {"content": b"", "is_available": 0, "ref_count": 0}
        session.execute(new, [{"object_id": name, **row} for name in (root, *parts)])
        if kept is None:
            session.execute(new, [{"object_id": tree, "content": told, "is_available": 1, "ref_count": 0}])
            children = [{"parent_id": root, "child_id": name} for name in (tree, *parts)]
            session.execute(insert(ObjectChild), children)
            counted = update(StoredObject).where(StoredObject.object_id.in_(_parts_of(root)))
            session.execute(counted.values(ref_count=StoredObject.ref_count + 1))
        session.execute(
            _new(store, RunObject),
            [{"run_id": uint64_to_int64(run_id), "object_id": name} for name in (root, tree, *parts)],
        )
        is_of_it = (StoredObject.object_id == root) | StoredObject.object_id.in_(_parts_of(root))
        return list(session.scalars(select(StoredObject.object_id).where(StoredObject.is_available == 0, is_of_it)))


def _new(store: SqlObjectStore, table: type[StoredObject | RunObject]) -> Any:
    """Return the statement that adds the rows which a table lacks."""
    statement: Any = store.dialect_insert(table)
    return statement.on_conflict_do_nothing()


def _parts_of(root: str) -> Any:
    return select(ObjectChild.child_id).where(ObjectChild.parent_id == root)


def _tree_of(store: SqlObjectStore, object_id: str) -> ObjectTree:
    """Replace `SqlObjectStore.get_object_tree`."""
    told = store.get(TREE + object_id)
    return _get_object_tree(store, object_id) if told is None else ObjectTree.FromString(told)


def _delete_objects_in_run(store: SqlObjectStore, run_id: int) -> None:
    """Replace `SqlObjectStore.delete_objects_in_run`: delete the objects that no other run has.

    Flower keeps objects that are parts of a message; two messages that name each other would stay for ever.
    """
    with store._mutation_session() as session:
        session.execute(delete(RunObject).where(RunObject.run_id == uint64_to_int64(run_id)))
        session.execute(delete(StoredObject).where(StoredObject.object_id.not_in(select(RunObject.object_id))))
