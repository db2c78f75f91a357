#!/usr/bin/env python3
"""The manifests against the models of Kubernetes' API, as Debian's python3-kubernetes has them.

    kubernetes_manifests.py FOLDER

A field that the API does not know, or that has another type there, is lost or changed when a manifest goes
through the model and back; a field that is required and missing is refused. Exits 77 without that library."""

import copy
import pathlib
import sys

try:
    import yaml
    from kubernetes import client
except ImportError as error:
    print("skipped:", error)
    sys.exit(77)

MODELS = {"Pod": "V1Pod", "ConfigMap": "V1ConfigMap"}


def differs(document, model):
    """Why the document is not one of the model; None when it is."""
    api = client.ApiClient()
    try:
        back = api.sanitize_for_serialization(api._ApiClient__deserialize(document, model))
    except (ValueError, TypeError, AttributeError) as error:
        return str(error)
    return None if back == document else f"{document}\n{back}"


def main():
    folder = pathlib.Path(sys.argv[1])
    documents = list(yaml.safe_load_all((folder / "sidecar.yaml").read_text(encoding="utf-8")))
    assert [document["kind"] for document in documents] == ["ConfigMap", "Pod"], documents
    for document in documents:
        why = differs(document, MODELS[document["kind"]])
        assert why is None, why
    # A profile is part of an ephemeral container, which has a name besides.
    profile = yaml.safe_load((folder / "debug-profile.yaml").read_text(encoding="utf-8")) | {"name": "debugger"}
    why = differs(profile, "V1EphemeralContainer")
    assert why is None, why

    pod = documents[1]
    for break_it in (lambda spec: spec.update(sharedProcessNamespace=True),
                     lambda spec: spec["containers"][1].pop("name"),
                     lambda spec: spec["containers"][1]["securityContext"].update(runAsUser="root"),
                     lambda spec: spec["containers"][1]["volumeMounts"][0].update(path="/etc")):
        broken = copy.deepcopy(pod)
        break_it(broken["spec"])
        assert differs(broken, "V1Pod"), broken
    return 0


if __name__ == "__main__":
    sys.exit(main())
