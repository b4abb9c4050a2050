"""One server for all tests, and a namespace for each."""

import pathlib
import shlex
import subprocess

import kubernetes
import pytest

CRDS = pathlib.Path(__file__).parent.parent.parent / "widgets.yaml"


@pytest.fixture(scope="session")
def api():
    """A client of a server that ends when its standard input does: with this process,
    however this process ends."""
    server = subprocess.Popen(
        ["kube-hyper-mini", "run", "--until-eof", "--crds", str(CRDS)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )
    line = server.stdout.readline()  # export KUBECONFIG=FILE
    if not line:
        raise RuntimeError(f"the server ended with {server.wait()}")
    kubeconfig = shlex.split(line)[1].partition("=")[2]
    yield kubernetes.config.new_client_from_config(kubeconfig)
    server.stdin.close()
    assert server.wait() == 0


@pytest.fixture
def namespace(api):
    """The name of a new namespace, which is deleted with its content."""
    core = kubernetes.client.CoreV1Api(api)
    name = core.create_namespace({"metadata": {"generateName": "test-"}}).metadata.name
    yield name
    core.delete_namespace(name)
