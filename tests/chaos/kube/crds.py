"""Trims Kueue's CRDs to the parts that tests of the controller validate.

python3 tests/chaos/kube/crds.py FOLDER COMMIT -o tests/python/samples/kube/kueue-crds.yaml

FOLDER is config/components/crd/bases of Kueue at COMMIT. Kept: the newest served version of the
kinds of manifests/kueue.yaml and of Workloads. Left out: descriptions, rules in CEL, and the
templates of pods, which the schemas of Kubernetes check.
"""

import argparse
import pathlib
import sys

import yaml

KINDS = ("AdmissionCheck", "ClusterQueue", "ResourceFlavor", "Workload")
HEAD = """\
# Parts of the CustomResourceDefinitions of Kueue (https://github.com/kubernetes-sigs/kueue), commit
# {commit}, Copyright The Kubernetes Authors, Apache License 2.0
# (https://www.apache.org/licenses/LICENSE-2.0). Changed by tests/chaos/kube/crds.py: descriptions,
# rules in CEL, templates of pods, and all but the newest version are left out.
"""


def trim(schema, path=()):
    """The schema without descriptions and rules; any object in place of a template of a pod."""
    if isinstance(schema, list):
        return [trim(each, path) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if path[-2:] == ("properties", "template"):
        return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    is_names = path[-1:] == ("properties",)  # keys are names of fields
    return {
        key: trim(value, (*path, key))
        for key, value in schema.items()
        if is_names or key not in ("description", "x-kubernetes-validations")
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("commit")
    parser.add_argument("-o", dest="output", type=pathlib.Path, required=True)
    options = parser.parse_args()
    found = {}
    for file in sorted(options.folder.glob("*.yaml")):
        crd = yaml.safe_load(file.read_text())
        kind = crd["spec"]["names"]["kind"]
        if kind in KINDS:
            newest = max((v for v in crd["spec"]["versions"] if v["served"]),
                         key=lambda version: version["name"])  # fmt: skip
            schema = {"openAPIV3Schema": trim(newest["schema"]["openAPIV3Schema"])}
            versions = [{"name": newest["name"], "schema": schema}]
            names = {"kind": kind}
            spec = {"group": crd["spec"]["group"], "names": names, "versions": versions}
            found[kind] = {"spec": spec}
    if set(found) != set(KINDS):
        sys.exit(f"{options.folder}: expected {', '.join(KINDS)}, found {', '.join(found)}")
    text = yaml.safe_dump_all(found.values(), default_flow_style=None, width=120, sort_keys=False)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(HEAD.format(commit=options.commit) + text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
