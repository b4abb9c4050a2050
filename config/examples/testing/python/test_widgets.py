import kubernetes
import pytest


@pytest.fixture
def widgets(api, namespace):
    """Creates and lists widgets in the namespace of the test."""
    return Widgets(kubernetes.client.CustomObjectsApi(api), namespace)


class Widgets:
    def __init__(self, objects, namespace):
        self.objects, self.where = objects, ("example.com", "v1", namespace, "widgets")

    def create(self, size):
        body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "one"}, "spec": {"size": size}}
        return self.objects.create_namespaced_custom_object(*self.where, body)

    def list(self):
        return self.objects.list_namespaced_custom_object(*self.where)["items"]


def test_small_widget(widgets):
    widgets.create(3)
    assert [widget["spec"]["size"] for widget in widgets.list()] == [3]


def test_large_widget(widgets):
    with pytest.raises(kubernetes.client.ApiException, match="too big") as refused:
        widgets.create(12)
    assert refused.value.status == 422
    assert widgets.list() == []
