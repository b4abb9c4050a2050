package kubectl

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/discovery"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
)

// errNoNodes is the error of `cluster-info dump` on a server without nodes.
var errNoNodes = errors.New("cluster-info dump shows nodes and workloads, which this server does not serve: use 'kubectl get events -A', 'kube-hyper-mini status' or 'kube-hyper-mini doctor'")

// answerClusterInfo changes `cluster-info`, which fails on servers without Services: it
// prints the address there. `cluster-info dump` names other commands on servers without
// nodes. On other servers, and on errors, upstream's commands run.
func answerClusterInfo(root *cobra.Command, getter genericclioptions.RESTClientGetter) error {
	return errors.Join(
		runWithout(root, getter, "services", printAddress, "cluster-info"),
		runWithout(root, getter, "nodes", func(io.Writer, string) error { return errNoNodes }, "cluster-info", "dump"),
	)
}

func printAddress(out io.Writer, address string) error {
	_, err := fmt.Fprintf(out, "Kubernetes control plane is running at %s\n\nIt has no Services. To diagnose problems, use 'kube-hyper-mini doctor'.\n", address)
	return err
}

// runWithout has the command with that path call answer, with the server's address, if
// the server does not serve the resource of the core group.
func runWithout(root *cobra.Command, getter genericclioptions.RESTClientGetter, resource string, answer func(io.Writer, string) error, path ...string) error {
	command, rest, err := root.Find(path)
	if err != nil || len(rest) > 0 || command.Run == nil {
		return fmt.Errorf("kubectl has no command %v", path)
	}
	upstream := command.Run
	command.Run = func(cmd *cobra.Command, args []string) {
		address, served, err := serves(getter, resource)
		if err != nil || served {
			upstream(cmd, args) // it prints the error of its own request
			return
		}
		cmdutil.CheckErr(answer(cmd.OutOrStdout(), address))
	}
	return nil
}

// serves reports whether the server serves a resource of the core group, and its address.
// It does not use discovery of the getter, which is cached in files for hours.
func serves(getter genericclioptions.RESTClientGetter, resource string) (address string, served bool, err error) {
	config, err := getter.ToRESTConfig()
	if err != nil {
		return "", false, fmt.Errorf("read the kubeconfig: %w", err)
	}
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return "", false, fmt.Errorf("connect to %s: %w", config.Host, err)
	}
	list, err := client.ServerResourcesForGroupVersion("v1")
	if err == nil && len(list.APIResources) == 0 { // so client-go answers "not found" and "forbidden"
		err = errors.New("it shows none")
	}
	if err != nil {
		return "", false, fmt.Errorf("list the core types of %s: %w", config.Host, err)
	}
	return config.Host, slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == resource }), nil
}
