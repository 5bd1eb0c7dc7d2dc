"""Tests with an API server of their own:

    pip install -r requirements.txt
    kanzen test -- python3 -m unittest        # or: kanzen test -- pytest
"""

import unittest

from kubernetes import client, config
from kubernetes.client.rest import ApiException

import labeller

DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
        "versions": [{
            "name": "v1", "served": True, "storage": True,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": {"size": {"type": "integer", "minimum": 1}}}}}},
        }],
    },
}


def setUpModule():
    config.load_kube_config()  # kanzen test has set KUBECONFIG
    with client.ApiClient() as connection:
        # The definition is served with the answer: there is nothing to wait for.
        client.ApiextensionsV1Api(connection).create_custom_resource_definition(DEFINITION)


class LabellerTest(unittest.TestCase):
    def setUp(self):
        connection = client.ApiClient()
        self.addCleanup(connection.close)
        self.api = client.CustomObjectsApi(connection)
        body = {"metadata": {"generateName": "test-"}}
        self.namespace = client.CoreV1Api(connection).create_namespace(body).metadata.name

    def create(self, name, size):
        body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"size": size}}
        return self.api.create_namespaced_custom_object(namespace=self.namespace, body=body, **labeller.WIDGETS)

    def test_labels(self):
        self.create("a", 3)
        self.create("b", 30)
        seen = {}

        def stop(widget):
            seen[widget["metadata"]["name"]] = widget["metadata"]["labels"]["size"]
            return len(seen) == 2

        labeller.run(self.api, self.namespace, stop)
        self.assertEqual(seen, {"a": "small", "b": "big"})

    def test_schema(self):
        with self.assertRaises(ApiException) as refused:
            self.create("none", 0)
        self.assertEqual(refused.exception.status, 422)
        self.assertIn("spec.size", refused.exception.body)


if __name__ == "__main__":
    unittest.main()
