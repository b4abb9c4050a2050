package kubectl

import (
	"net/http"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"

	upstream "kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kubectl"
)

// refuseRequests makes requests fail with the reason, unless the arguments name a server.
// Commands that send none, such as create --dry-run=client, work. kubectl prints the reason
// once at its end, and with -v=1 for each attempt of its clients, too.
func refuseRequests(flags *genericclioptions.ConfigFlags, reason error) {
	flags.WrapConfigFn = func(config *rest.Config) *rest.Config {
		if *flags.APIServer == "" {
			config.Wrap(func(http.RoundTripper) http.RoundTripper { return refusing{reason} })
		}
		return config
	}
	upstream.DemoteErrors(reason)
}

// refusing is an [http.RoundTripper] that fails.
type refusing struct{ reason error }

// RoundTrip implements [http.RoundTripper].
func (r refusing) RoundTrip(*http.Request) (*http.Response, error) { return nil, r.reason }
