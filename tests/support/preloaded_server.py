# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The process that has loaded Ansible and becomes ``ansible-playbook`` in its children; ``preloaded.py`` starts it.

    preloaded_server.py FD     FD: the socket with the calls

Ansible reads its configuration when it is loaded. A child reads it again, from its own environment and folder, as if it had just been started.
Some of it stays where modules put it when they were loaded, and so does what they read from the environment: what was read then is noted, and a
child for which any of it differs runs the program from its file instead.
"""

from __future__ import annotations

import os
import sys

PROGRAM = os.path.join(os.path.dirname(sys.executable), "ansible-playbook")
if __name__ == "__main__":
    sys.path[0] = os.path.dirname(PROGRAM)  # as in the program: nothing of this folder can be imported

import ast  # noqa: E402
import atexit  # noqa: E402
import functools  # noqa: E402
import gc  # noqa: E402
import importlib  # noqa: E402
import json  # noqa: E402
import signal  # noqa: E402
import socket  # noqa: E402
import time  # noqa: E402
import types  # noqa: E402
import typing as t  # noqa: E402

#: The program, and what the plugins need that every play loads; not the plugins, because a playbook may have others of the same name.
MODULES = (
    "ansible.cli.playbook",
    "ansible._internal._json._profiles._inventory_legacy",
    *(f"ansible.executor.{name}" for name in ("module_common", "powershell.module_manifest", "process.worker", "task_executor")),
    *(f"ansible.playbook.{name}" for name in ("handler_task_include", "role_include", "task_include")),
    *(f"ansible.plugins.{name}" for name in ("action", "become", "cache", "callback", "connection", "inventory", "lookup", "shell", "strategy", "vars")),
    *(f"ansible.utils.{name}" for name in ("_junit_xml", "hashing", "shlex")),
    *(f"multiprocessing.{name}" for name in ("popen_fork", "resource_tracker", "shared_memory", "synchronize")),
    *("http.client", "pty", "ssl", "tomllib", "urllib.request", "xml.dom.minidom", "xml.etree.ElementTree", "xml.sax.saxutils"),
)


class Read:
    """What modules read while they are loaded: names of settings and of environment variables, with their values."""

    def __init__(self) -> None:
        #: Why the program itself is needed, if it is always.
        self.failed = ""
        self.settings: dict[str, t.Any] = {}
        self.variables: dict[str, str | None] = {}

    def load(self) -> None:
        """Load Ansible. The constants come first: they are read again anyway."""
        import ansible._internal  # noqa: F401  # pylint: disable=import-outside-toplevel,unused-import
        from ansible import constants  # pylint: disable=import-outside-toplevel

        settings: set[str] = set()
        variables: set[str] = set()
        environment = type(os.environ)

        class Constants(types.ModuleType):
            def __getattribute__(self, name: str) -> t.Any:
                settings.add(name)
                return super().__getattribute__(name)

        class Environment(environment):  # type: ignore[misc,valid-type]
            def __getitem__(self, name: str) -> str:
                variables.add(name)
                return t.cast(str, super().__getitem__(name))

        get = constants.config.get_config_value

        def get_config_value(config: str, *arguments: t.Any, **more: t.Any) -> t.Any:
            settings.add(config)
            return get(config, *arguments, **more)

        constants.config.get_config_value = get_config_value
        constants.__class__ = Constants
        os.environ.__class__ = Environment
        for name in MODULES:
            importlib.import_module(name)
        os.environ.__class__ = environment
        constants.__class__ = types.ModuleType
        del constants.config.get_config_value
        _read_first()
        known = constants.config.get_configuration_definitions()
        self.settings = {name: getattr(constants, name) for name in settings if name in known}
        self.variables = {name: os.environ.get(name) for name in variables}

    def differs(self) -> str:
        """Read the configuration again, and return what of it is not as it was read before; empty if everything is."""
        from ansible import constants  # pylint: disable=import-outside-toplevel
        from ansible.config import manager  # pylint: disable=import-outside-toplevel
        from ansible.utils.path import cleanup_tmp_file  # pylint: disable=import-outside-toplevel

        atexit.unregister(cleanup_tmp_file)  # the parent's temporary folder
        # the home is only part of paths to packages of the user
        if self.failed:
            return self.failed
        if changed := [name for name, value in self.variables.items() if name != "HOME" and os.environ.get(name) != value]:
            return changed[0]
        config, definitions, kind = constants.config, constants.config._base_defs, manager.ConfigManager
        kind.WARNINGS.clear()
        kind.DEPRECATED.clear()
        # the same object, to which modules have references; the file with the definitions of the settings has not changed
        config._read_config_yaml_file = lambda unused: definitions
        config.__init__()
        del config._read_config_yaml_file
        manager.ConfigManager = lambda: config
        importlib.reload(constants)
        manager.ConfigManager = kind
        return next((name for name, value in self.settings.items() if _there(getattr(constants, name)) != _there(value)), "")


def _read_first() -> None:
    """Read and parse the files of Ansible that every run needs: where its plugins are, and what every module contains."""
    from ansible import config  # pylint: disable=import-outside-toplevel
    from ansible.executor import module_common  # pylint: disable=import-outside-toplevel
    from ansible.utils.collection_loader import _collection_finder as finder  # pylint: disable=import-outside-toplevel

    # a function that others may replace, for example with one that keeps its results
    finder._meta_yml_to_dict = functools.cache(finder._meta_yml_to_dict)
    with open(os.path.join(config.__path__[0], "ansible_builtin_runtime.yml"), "rb") as file:
        finder._meta_yml_to_dict(file.read(), ("ansible.builtin", "runtime.yml"))
    trees = {}
    for path in [getattr(module, "__file__", None) for name, module in sys.modules.items() if name.startswith("ansible.module_utils.")]:
        if path:
            with open(path, "rb") as file:
                text = file.read()
            trees[text] = compile(text, path, "exec", ast.PyCF_ONLY_AST)
            # only its imports are looked for, and every fork copies the tables of what is kept
            lines = text.splitlines()
            trees[text].body = [one for one in trees[text].body if any(b"import" in line for line in lines[one.lineno - 1 : one.end_lineno])]

    def parsed(text: bytes, *arguments: t.Any) -> t.Any:
        return trees.get(text) or compile(text, *arguments)

    module_common.compile = parsed


def _there(value: t.Any) -> t.Any:
    """A setting; of a list of folders below the user's home, those that exist."""
    return [path for path in value if not str(path).startswith("/") or os.path.exists(path)] if isinstance(value, list) else value


def _play(request: t.Mapping[str, t.Any], read: Read) -> int:
    """Be ``ansible-playbook``, with the arguments, the environment and the folder of the request."""
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    time.tzset()
    sys.argv = [PROGRAM, *request["arguments"]]
    try:
        different = read.differs()
    except Exception as error:  # pylint: disable=broad-exception-caught
        different = str(error)  # an invalid setting, which the program explains
    if different:
        atexit._run_exitfuncs()
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ)
    from ansible.cli import display, playbook  # type: ignore[attr-defined]  # pylint: disable=import-outside-toplevel

    display.__init__()  # a fork ends its locks of stdout and stderr for good
    return t.cast(int, playbook.main())


def _call(call: socket.socket, streams: t.Sequence[int]) -> dict[str, t.Any]:
    """Start the child of a call, send its file descriptor and its exit code; returns the request, in the child only."""
    request = json.loads(b"".join(iter(lambda: call.recv(65536), b"")))
    child = os.fork()
    if not child:
        call.close()
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        return t.cast("dict[str, t.Any]", request)
    try:
        socket.send_fds(call, [b"pid"], [os.pidfd_open(child)])
        call.sendall(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())
    finally:
        os._exit(0)


def main() -> int:
    read = Read()
    try:
        read.load()
    except (AttributeError, ImportError, TypeError) as error:  # a version of Ansible that is made otherwise
        read.failed = str(error)
    gc.collect()
    gc.freeze()  # otherwise each child copies all objects when it collects garbage
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    channel = socket.socket(fileno=int(sys.argv[1]))
    calls: set[int] = set()
    while files := socket.recv_fds(channel, 1, 4)[1]:
        calls -= {call for call in calls if os.waitpid(call, os.WNOHANG)[0]}
        call = os.fork()
        if not call:
            channel.close()
            return _play(_call(socket.socket(fileno=files[0]), files[1:]), read)
        calls.add(call)
        for file in files:
            os.close(file)
    for call in calls:
        os.waitpid(call, 0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
