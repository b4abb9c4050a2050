package cli

import (
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"kube-hyper-mini.io/kube-hyper-mini/config"
)

func TestLocalServerIsReachedByItsAddress(t *testing.T) {
	given := api.NewConfig()
	given.Clusters["c"] = &api.Cluster{Server: "https://balancer.example.com:7443"}
	data, err := clientcmd.Write(*given)
	if err != nil {
		t.Fatal(err)
	}
	for bind, want := range map[string]string{
		"127.0.0.1": "https://127.0.0.1:7443",
		"0.0.0.0":   "https://127.0.0.1:7443",
		"::":        "https://127.0.0.1:7443",
		"10.0.0.7":  "https://10.0.0.7:7443",
		"::1":       "https://[::1]:7443",
	} {
		local, err := localKubeconfig(data, &config.Serving{BindAddress: bind})
		if err != nil {
			t.Fatal(err)
		}
		got, err := clientcmd.Load(local)
		if err != nil {
			t.Fatal(err)
		}
		if server := got.Clusters["c"].Server; server != want {
			t.Errorf("bound to %s, it is asked at %s, want %s", bind, server, want)
		}
	}
	// With an external URL, the port is another one.
	mapped := []byte("clusters: [{name: c, cluster: {server: 'https://mapped.example.com:32768', extensions: [{name: kube-hyper-mini.io/local, extension: {server: 'https://10.0.0.7:6443'}}]}}]")
	local, err := localKubeconfig(mapped, &config.Serving{BindAddress: "0.0.0.0"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := clientcmd.Load(local); err != nil || got.Clusters["c"].Server != "https://10.0.0.7:6443" {
		t.Errorf("it is asked at %+v, %v", got, err)
	}
	if _, err := localKubeconfig([]byte("{"), &config.Serving{BindAddress: "127.0.0.1"}); err == nil {
		t.Error("a broken kubeconfig was accepted")
	}
}
