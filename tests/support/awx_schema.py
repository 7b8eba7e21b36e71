# Copyright (c) the reduced.footprint authors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of the modules of awx.awx that read the files in awx/config, kept in awx_schema.json.

    awx_schema.py DIRECTORY     extracts them from the collection in DIRECTORY (ansible_collections/awx/awx)
"""

from __future__ import annotations

import ast
import json
import pathlib
import sys
import typing as t

import yaml

FILE = pathlib.Path(__file__).with_suffix(".json")
#: The variables of infra.aap_configuration, and the module that creates each of their items.
MODULES = {
    "aap_organizations": "organization",
    "controller_execution_environments": "execution_environment",
    "controller_credential_types": "credential_type",
    "controller_credentials": "credential",
    "controller_projects": "project",
    "controller_inventories": "inventory",
    "controller_inventory_sources": "inventory_source",
    "controller_templates": "job_template",
    "controller_workflows": "workflow_job_template",
}
_KEPT = ("type", "elements", "choices", "required", "aliases")


def load() -> dict[str, t.Any]:
    """The version of the collection, and the options of each module."""
    return t.cast("dict[str, t.Any]", json.loads(FILE.read_text("utf-8")))


def extract(collection: pathlib.Path) -> dict[str, t.Any]:
    """Read the options of the modules from their source; nothing is executed."""
    manifest = json.loads((collection / "MANIFEST.json").read_text("utf-8"))["collection_info"]
    modules = {name: options((collection / "plugins" / "modules" / f"{name}.py").read_text("utf-8")) for name in sorted(MODULES.values())}
    return {"collection": f"{manifest['namespace']}.{manifest['name']}", "version": manifest["version"], "modules": modules}


def options(source: str) -> dict[str, t.Any]:
    """The options of a module: type, choices and so on, from its argument specification; suboptions from its documentation."""
    tree = ast.parse(source)
    constants: dict[str, ast.expr] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            constants.setdefault(node.targets[0].id, node.value)
    spec = constants["argument_spec"]
    documented = yaml.safe_load(ast.literal_eval(constants["DOCUMENTATION"]))["options"]
    found = {}
    for option in spec.keywords if isinstance(spec, ast.Call) else ():
        wanted = {word.arg: _value(word.value, constants) for word in option.value.keywords if word.arg in _KEPT}
        suboptions = documented.get(option.arg, {}).get("suboptions")
        found[str(option.arg)] = {"type": "str", **wanted, **({"suboptions": _suboptions(suboptions)} if suboptions else {})}
    return found


def _value(node: ast.expr, constants: t.Mapping[str, ast.expr]) -> t.Any:
    """A literal, or ``list(NAME.keys())``."""
    if isinstance(node, ast.Call):
        names = [part.id for part in ast.walk(node) if isinstance(part, ast.Name) and part.id in constants]
        return sorted(ast.literal_eval(constants[names[0]]))
    return ast.literal_eval(node)


def _suboptions(documented: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    return {
        name: {
            "type": "str",
            **{key: value for key, value in about.items() if key in _KEPT},
            **({"suboptions": _suboptions(about["suboptions"])} if about.get("suboptions") else {}),
        }
        for name, about in documented.items()
    }


if __name__ == "__main__":
    made = extract(pathlib.Path(sys.argv[1]))
    # one line for each option
    lines = []
    for module, found in made["modules"].items():
        lines.append(f' "{module}": {{\n' + ",\n".join(f'  "{name}": {json.dumps(spec)}' for name, spec in found.items()) + "\n }")
    head = "".join(f'"{key}": {json.dumps(made[key])},\n' for key in ("collection", "version"))
    FILE.write_text(f'{{{head}"modules": {{\n' + ",\n".join(lines) + "\n}}\n", "utf-8")
