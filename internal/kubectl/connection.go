package kubectl

import (
	"net/http"
	"regexp"
	"strings"
	"syscall"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"

	"kube-hyper-mini.io/kube-hyper-mini/internal/kubeconfig"
	upstream "kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kubectl"
)

// Connection is how kubectl reaches its server unless the arguments name another.
type Connection struct {
	// Missing is nil, or why there is no server: requests fail with it. kubectl would send
	// them to localhost:8080.
	Missing error
	// Address of a server on this machine, with Local; or zero.
	Address kubeconfig.Address
	// Generic: the server has no workloads (see config.ProfileGeneric).
	Generic bool
	// Start is the command that starts the server of Address.
	Start string
	// Plane is the name of a control plane of that server; empty for the server itself.
	Plane string
}

// notServed matches errors of kubectl about types of the profile kubernetes.
var notServed = regexp.MustCompile(
	`(?is)(could not find the requested resource|have a resource type|no matches for kind).*` +
		`\b(pod|deployment|replicaset|statefulset|daemonset|service|node|job|cronjob|ingress|networkpolic|` +
		`persistentvolume|poddisruptionbudget|horizontalpodautoscaler|endpoint)`)

// ownFlag matches the error of kubectl about a flag of this program after kubectl's command.
var ownFlag = regexp.MustCompile(`unknown flag: (--plane|--data-dir|--config)\b`)

// hint is what to do about an error of kubectl; empty if nothing is known.
func (c Connection) hint(message string) string {
	if flag := ownFlag.FindStringSubmatch(message); flag != nil {
		return "\nPut " + flag[1] + " before the command: kube-hyper-mini kubectl " + flag[1] + " VALUE COMMAND"
	}
	refused := "The connection to the server " + strings.TrimPrefix(c.Address.Local, "https://") + " was refused"
	if c.Start != "" && strings.HasPrefix(message, refused) {
		return "\nThe server of this machine is stopped. Start it with " + c.Start
	}
	if c.Plane != "" && strings.HasSuffix(message, "(NotFound): the server could not find the requested resource") {
		return "\nThere is perhaps no control plane " + c.Plane + ": kube-hyper-mini kubectl get controlplanes lists them."
	}
	const unavailable = "(ServiceUnavailable): the server is currently unable to handle the request"
	if c.Plane != "" && strings.HasSuffix(message, unavailable) {
		return "\nWhy: kube-hyper-mini kubectl get controlplane " + c.Plane + " -o wide"
	}
	if !c.Generic || !notServed.MatchString(message) {
		return ""
	}
	if strings.Contains(message, "RESTMappings to prune") {
		return "\nName the types with --prune-allowlist, or use --applyset: this server lacks some that kubectl prunes."
	}
	return "\nThis server has no workloads. With --profile kubernetes (server, run) or apis.profile in the " +
		"configuration, it stores them as data."
}

// apply sets the connection of kubectl's clients. With Missing, commands that send no
// requests, such as create --dry-run=client, work; kubectl prints the reason once at its end,
// and with -v=1 for each attempt of its clients, too.
func (c Connection) apply(flags *genericclioptions.ConfigFlags) {
	flags.WrapConfigFn = func(config *rest.Config) *rest.Config {
		switch {
		case c.Missing != nil && *flags.APIServer == "":
			config.Wrap(func(http.RoundTripper) http.RoundTripper { return refusing{c.Missing} })
		case c.Missing == nil && c.Address.Local != "" && config.Host == c.Address.Server:
			config.Host, config.ServerName = c.Address.Local, c.Address.TLSServerName
		}
		return config
	}
	switch {
	case c.Missing != nil:
		upstream.DemoteErrors(c.Missing)
	case c.Start != "":
		upstream.DemoteErrors(syscall.ECONNREFUSED)
	}
}

// refusing is an [http.RoundTripper] that fails.
type refusing struct{ reason error }

// RoundTrip implements [http.RoundTripper].
func (r refusing) RoundTrip(*http.Request) (*http.Response, error) { return nil, r.reason }
