package kubectl

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// TestClusterInfo: the commands answer without upstream's only where a server does not
// serve what upstream's list.
func TestClusterInfo(t *testing.T) {
	for name, test := range map[string]struct {
		resources string // of the core group, in JSON; empty if discovery fails
		upstream  bool   // upstream's command runs
	}{
		"generic":    {`{"name": "configmaps"}`, false},
		"kubernetes": {`{"name": "services"}, {"name": "nodes"}`, true},
		"no answer":  {"", true},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/api/v1" || test.resources == "" {
					http.NotFound(w, r)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, `{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "v1", "resources": [`+test.resources+`]}`) // the client notices
			}))
			defer server.Close()
			var out bytes.Buffer
			ran := false
			root, info := &cobra.Command{Use: name}, &cobra.Command{Use: "cluster-info", Run: func(*cobra.Command, []string) { ran = true }}
			root.AddCommand(info)
			info.AddCommand(&cobra.Command{Use: "dump", Run: func(*cobra.Command, []string) {}})
			root.SetOut(&out)
			flags := genericclioptions.NewConfigFlags(false)
			flags.APIServer = &server.URL
			if err := answerClusterInfo(root, flags); err != nil {
				t.Fatal(err)
			}
			root.SetArgs([]string{"cluster-info"})
			if err := root.Execute(); err != nil {
				t.Fatal(err)
			}
			answered := strings.Contains(out.String(), "Kubernetes control plane is running at "+server.URL+"\n")
			if ran != test.upstream || answered == test.upstream {
				t.Errorf("upstream's command ran: %t, want %t; output:\n%s", ran, test.upstream, out.String())
			}
		})
	}
	if err := answerClusterInfo(&cobra.Command{Use: "kubectl"}, genericclioptions.NewConfigFlags(false)); err == nil {
		t.Error("a kubectl without the command is accepted")
	}
}
