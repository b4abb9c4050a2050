package kubectl

import (
	"context"
	"net/http"
	"strings"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
)

// refuseRequests makes requests fail with the reason, unless the arguments name a server.
// Commands that send none, such as create --dry-run=client, work. kubectl prints the reason
// once at its end; the log of its clients would have it for each attempt, too.
func refuseRequests(flags *genericclioptions.ConfigFlags, reason error) {
	flags.WrapConfigFn = func(config *rest.Config) *rest.Config {
		if *flags.APIServer == "" {
			config.Wrap(func(http.RoundTripper) http.RoundTripper { return refusing{reason} })
		}
		return config
	}
	for i, handle := range utilruntime.ErrorHandlers {
		utilruntime.ErrorHandlers[i] = func(ctx context.Context, err error, message string, values ...any) {
			if !strings.Contains(err.Error(), reason.Error()) {
				handle(ctx, err, message, values...)
			}
		}
	}
}

// refusing is an [http.RoundTripper] that fails.
type refusing struct{ reason error }

// RoundTrip implements [http.RoundTripper].
func (r refusing) RoundTrip(*http.Request) (*http.Response, error) { return nil, r.reason }
