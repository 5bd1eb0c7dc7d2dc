"""An operator in a few lines: it labels the Widgets of a namespace with their size."""

from kubernetes import watch

WIDGETS = {"group": "example.com", "version": "v1", "plural": "widgets"}


def label(widget):
    return "big" if widget["spec"]["size"] > 10 else "small"


def run(api, namespace, stop):
    """Labels what is there and what comes, until stop(widget) says that this was the last one."""
    events = watch.Watch()
    for event in events.stream(api.list_namespaced_custom_object, namespace=namespace, timeout_seconds=60, **WIDGETS):
        widget = event["object"]
        if event["type"] not in ("ADDED", "MODIFIED"):
            continue
        if widget["metadata"].get("labels", {}).get("size") != label(widget):
            name = widget["metadata"]["name"]
            patch = {"metadata": {"labels": {"size": label(widget)}}}
            widget = api.patch_namespaced_custom_object(namespace=namespace, name=name, body=patch, **WIDGETS)
        if stop(widget):
            events.stop()
