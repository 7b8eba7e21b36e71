# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every transition of Galera that the model claims, as data, so that tests with real members can have the same parameters.

The steps are the beginnings of the model's events. ``then`` is the state of some members afterwards: ``synced`` in a Primary Component, ``joining`` one
without its complete state, ``lost`` (runs without a Primary Component), ``isolated``, ``waiting`` (is starting, in no component), ``stopped``.
"""

from __future__ import annotations

import typing as t


class Transition(t.NamedTuple):
    """What Galera does.

    :arg members: names of the members; ``g`` is a witness.
    :arg precondition, effect: in words.
    :arg restores: as in ``galera_model``.
    """

    name: str
    members: str
    precondition: str
    effect: str
    steps: tuple[str, ...]
    then: t.Mapping[str, str]
    restores: bool = False


TRANSITIONS = (
    Transition(
        "majority", "abc", "a member is cut off", "more than half of the last component stays Primary, the rest does not",
        ("a is cut off", "a agree", "b, c agree"), {"a": "lost", "b": "synced", "c": "synced"},
    ),
    Transition(
        "half", "abc", "two of three lose power one after the other", "one of two is not a majority",
        ("a loses power", "b, c agree", "b loses power", "c agree"), {"c": "lost"},
    ),
    Transition(
        "orderly stop", "abc", "two of three are stopped in an orderly way", "the component shrinks and stays Primary; those stopped have no saved view",
        ("the operator stops a", "the operator stops b"), {"a": "stopped", "b": "stopped", "c": "synced"},
    ),
    Transition(
        "witness votes", "abg", "a member is cut off", "the other one and the witness stay Primary",
        ("a is cut off", "a agree", "b, g agree"), {"a": "lost", "b": "synced", "g": "synced"},
    ),
    Transition(
        "witness alone, after a crash", "abg", "a member and the witness are Primary, the member is killed", "the witness is not Primary",
        ("a loses power", "b, g agree", "b loses power", "g agree"), {"g": "lost"},
    ),
    Transition(
        "witness alone, after orderly stops", "abg", "both members are stopped in an orderly way", "the witness is Primary, without data",
        ("the operator stops a", "the operator stops b"), {"g": "synced"},
    ),
    Transition(
        "relay", "abc", "one link is cut", "members reach each other over the third one, and nothing changes",
        ("the link a-b is cut",), {"a": "synced", "b": "synced", "c": "synced"},
    ),
    Transition(
        "no commit without all", "abc", "a member is cut off, and the others have not agreed yet", "no transaction is ordered",
        ("a is cut off", "not: b, c order"), {},
    ),
    Transition(
        "re-merge", "abc", "all are cut from each other and connect again, no process ended", "Galera forms the component again",
        ("a is cut off", "a agree", "b, c agree", "b is cut off", "b agree", "c agree", "all links are back", "a, b, c agree"),
        {"a": "joining", "b": "synced", "c": "synced"},
    ),
    Transition(
        "re-merge needs all", "abc", "one of the last component is still away", "the others are not Primary",
        ("a is cut off", "a agree", "b, c agree", "b loses power", "c agree", "all links are back", "not: a, c agree on their component: Primary"),
        {"a": "lost", "c": "lost"},
    ),
    Transition(
        "a restarted process is another one", "abc", "one of the last component was restarted, its view file was renamed before", "the members are not Primary",
        ("a is cut off", "a agree", "b, c agree", "the server of b", "the server of c", "all links are back", "not: a, b, c agree on their component: Primary"),
        {"a": "lost", "b": "waiting", "c": "waiting"},
    ),
    Transition(
        "memory wins over the disk", "abc", "the same, the view files were not renamed", "the component has the state of the member that was not restarted",
        ("a is cut off", "a agree", "b, c agree", "b, c order", "the server of b", "the server of c", "all links are back", "a, b, c agree"),
        {"a": "synced"}, True,
    ),
    Transition(
        "restored views", "abc", "all are killed, the view files are not renamed", "Galera forms the component again",
        ("the server of a", "the server of b", "the server of c", "a, b, c agree"), {"a": "synced", "b": "synced", "c": "synced"}, True,
    ),
    Transition(
        "a lost member joins", "abc", "a member that was cut off connects to a Primary Component", "it joins, behind: IST or SST; then it is Synced",
        ("a is cut off", "a agree", "b, c agree", "all links are back", "a, b, c agree", "a receives"), {"a": "synced", "b": "synced", "c": "synced"},
    ),
    Transition(
        "a restarted member joins", "abc", "a killed member starts again", "it joins; with the position of the component it lacks nothing",
        ("the server of a", "a, b, c agree"), {"a": "synced", "b": "synced", "c": "synced"},
    ),
    Transition(
        "isolated", "abc", "a member that lost the component is isolated; the links are back", "it reaches no other member",
        ("a is cut off", "a agree", "b, c agree", "the guard of a: isolate", "all links are back", "not: a, b, c agree"), {"a": "isolated", "b": "synced"},
    ),
    Transition(
        "form while it runs", "abc", "pc.bootstrap on an isolated member", "it is Primary alone, the others are not",
        ("a is cut off", "a agree", "b, c agree", "b is cut off", "b agree", "c agree", "the guard of a: isolate", "the guard of b: isolate",
         "the guard of c: isolate", "all links are back", "the guard of b: form"),
        {"a": "isolated", "b": "synced", "c": "isolated"},
    ),
    Transition(
        "form with a new process", "abc", "a waiting member is killed and bootstraps the cluster", "it is Primary with the position of its disk",
        ("the server of a", "the server of b", "the server of c", "the guard of a: form", "the guard of a: form", "a, b, c agree"),
        {"a": "synced", "b": "joining", "c": "joining"},
    ),
    Transition(
        "a view has a position", "abc", "a new Primary Component", "the position of its members grows, that of a member outside does not",
        ("a is cut off", "a agree", "b, c agree", "all links are back", "a, b, c agree"), {"a": "joining", "b": "synced"},
    ),
    Transition(
        "no donor", "abg", "a member that is behind and the witness keep the majority when the only one with the data is killed",
        "they are Primary, none of them has the data, and the member waits",
        ("a is cut off", "a agree", "b, g agree", "b, g order", "all links are back", "a, b, g agree", "b loses power", "a, g agree"),
        {"a": "joining", "g": "synced"},
    ),
    Transition(
        "conflict", "abg", "a component was formed while the witness was Primary alone; they meet", "one of them aborts, here the witness, and joins",
        ("the operator stops a", "the operator stops b", "g is cut off", "the operator starts a", "the operator starts b", "the guard of b: form",
         "the guard of b: form", "all links are back", "a, b, g agree", "a, b, g agree"),
        {"a": "joining", "b": "synced"},
    ),
    Transition(
        "the donor is lost", "abg", "a member copies all data, its donor is excluded", "the member leaves, and the witness is Primary alone",
        ("a is cut off", "a agree", "b, g agree", "b, g order", "all links are back", "a, b, g agree", "b is cut off", "b agree", "a, g agree",
         "a has lost its donor, leaves"),
        {"a": "waiting", "b": "lost", "g": "synced"},
    ),
    Transition(
        "the donor is lost, and a crash", "abg", "the same, but the member crashes when it notices", "the witness is not Primary",
        ("a is cut off", "a agree", "b, g agree", "b, g order", "all links are back", "a, b, g agree", "b is cut off", "b agree", "a, g agree",
         "a has lost its donor, crashes", "a, g agree"),
        {"a": "waiting", "b": "lost", "g": "lost"},
    ),
    Transition(
        "a witness alone", "abg", "it has no connection for some seconds", "its program restarts it, and it is in no component",
        ("the operator stops a", "the operator stops b", "g has lost all connections"), {"a": "stopped", "b": "stopped", "g": "lost"},
    ),
    Transition(
        "a witness forgets", "abg", "the witness is restarted", "it does not belong to an earlier component, and joins a Primary one",
        ("the server of g", "a, b, g agree"), {"a": "synced", "b": "synced", "g": "synced"},
    ),
)  # fmt: skip
