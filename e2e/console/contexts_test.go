package console

import (
	"maps"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"k8s.io/client-go/tools/clientcmd"

	"kube-hyper-mini.io/kube-hyper-mini/e2e/harness"
)

// TestContexts: the page is that of the kubeconfig's current context, or of the one that
// is named, and shows its name.
func TestContexts(t *testing.T) {
	t.Parallel()
	s, server := harness.Start(t), &many{types: 20, objects: 1}
	config, err := clientcmd.LoadFromFile(s.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	other, err := clientcmd.LoadFromFile(server.serve(t))
	if err != nil {
		t.Fatal(err)
	}
	maps.Copy(config.Clusters, other.Clusters)
	maps.Copy(config.AuthInfos, other.AuthInfos)
	maps.Copy(config.Contexts, other.Contexts)
	path := filepath.Join(t.TempDir(), "both.kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	p := open(t, launch(t, "--kubeconfig", path, "--context", "many"), "#/types?q=type")
	p.sees("many", "Type0000")
	current := launch(t, "--kubeconfig", path)
	p.run("open the console of the current context", chromedp.Navigate(current.address+"#/types?q=map"))
	p.sees(config.CurrentContext, "ConfigMap")
	p.lacks("Type0000")
	harness.Contains(t, harness.Runs(t, 2, "console", "--no-browser", "--kubeconfig", path, "--context", "none"), `"none"`)
}
