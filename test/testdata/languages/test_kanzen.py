# kanzen test -- python3 test_kanzen.py
from kubernetes import client, config

config.load_kube_config()
v1 = client.CoreV1Api()
v1.create_namespaced_config_map("default", {"metadata": {"name": "from-python"}, "data": {"a": "b"}})
got = v1.read_namespaced_config_map("from-python", "default")
assert got.data == {"a": "b"}, got
print("python: ok")
