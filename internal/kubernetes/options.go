package kubernetes

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/spf13/pflag"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/kubernetes/pkg/controlplane"
	"k8s.io/kubernetes/pkg/controlplane/apiserver/options"
	kubeoptions "k8s.io/kubernetes/pkg/kubeapiserver/options"
	netutils "k8s.io/utils/net"
)

// Names of flags, as kube-apiserver has them.
const (
	clusterIPFlag  = "service-cluster-ip-range"
	nodePortFlag   = "service-node-port-range"
	privilegedFlag = "allow-privileged"
)

// Options are the flags of kube-apiserver that exist only where services and pods
// are served. Package workloads has the fact how kube-apiserver applies them.
type Options struct {
	clusterIPRanges string
	nodePorts       utilnet.PortRange
	allowPrivileged bool
}

// NewOptions returns the defaults. They are kube-apiserver's, except allow-privileged:
// no pod runs here, and clusters allow it.
func NewOptions() *Options {
	return &Options{clusterIPRanges: kubeoptions.DefaultServiceIPCIDR.String(),
		nodePorts: kubeoptions.DefaultServiceNodePortRange, allowPrivileged: true}
}

// AddFlags adds the flags with the names and the syntax of kube-apiserver.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.clusterIPRanges, clusterIPFlag, o.clusterIPRanges,
		"CIDR of the cluster IPs of services, or one of each IP family, separated by a comma.")
	flags.Var(&o.nodePorts, nodePortFlag, "Range of the node ports of services, as 30000-32767.")
	flags.BoolVar(&o.allowPrivileged, privilegedFlag, o.allowPrivileged, "Whether pods may have privileged containers.")
}

// Validate returns one error for each wrong value, which names the flag.
func (o *Options) Validate() []error {
	if _, err := o.services(); err != nil {
		return []error{err}
	}
	return nil
}

// services returns the settings of services, of which the second range is empty for a single
// IP family.
func (o *Options) services() (controlplane.Extra, error) {
	var none controlplane.Extra
	list := strings.Split(o.clusterIPRanges, ",")
	if len(list) > 2 {
		return none, fmt.Errorf("--%s has %d ranges: write one, or one of each IP family", clusterIPFlag, len(list))
	}
	var parsed []*net.IPNet
	for _, text := range list {
		_, cidr, err := netutils.ParseCIDRSloppy(strings.TrimSpace(text))
		if err != nil {
			return none, fmt.Errorf("--%s: %q is not a CIDR: write one as 10.0.0.0/24", clusterIPFlag, text)
		}
		parsed = append(parsed, cidr)
	}
	primary, apiServer, err := options.ServiceIPRange(*parsed[0])
	if err != nil {
		return none, fmt.Errorf("--%s: %s: %w", clusterIPFlag, parsed[0], err)
	}
	extra := controlplane.Extra{ServiceIPRange: primary, APIServerServiceIP: apiServer, ServiceNodePortRange: o.nodePorts}
	if len(parsed) == 2 {
		extra.SecondaryServiceIPRange = *parsed[1]
		if dual, err := netutils.IsDualStackCIDRs(parsed); err != nil || !dual {
			return none, errors.New("--" + clusterIPFlag + ": the two ranges must be of different IP families")
		}
	}
	return extra, nil
}
