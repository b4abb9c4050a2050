package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"

	"kube-hyper-mini.io/kube-hyper-mini/internal/kubeconfig"
	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
)

var errPlaneInCluster = errors.New("--in-cluster-env is not for a control plane, because an in-cluster configuration " +
	"has a host and a port only, without /clusters/NAME: leave it out, and pass the program the kubeconfig")

// createFlags are the flags of kubeconfig create.
type createFlags struct {
	clientFlags
	groups         []string
	serviceAccount string
	expires        time.Duration
	server         string
	output         string
	force          bool
	inClusterDir   string
	namespace      string
	everywhere     bool
	role           string
}

func newKubeconfigCreate() *cobra.Command {
	flags := &createFlags{}
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Make a kubeconfig for a user or a service account",
		Long: `Make a kubeconfig for a user, with a client certificate that a running server
signs, or with a token for a service account. The command needs only the
administrator's kubeconfig: it also works on another machine.

The user has no rights until RBAC grants them to the name or to a group. --role
binds the role view, edit or admin in --namespace. Without it, the role of a service
account counts in the account's namespace, or with --all-namespaces in all, and that
of a user in all namespaces. The binding remains when the credentials have expired. A
certificate cannot be revoked: keep its lifetime short, or remove the user's rights.

--in-cluster-env writes the files of an in-cluster configuration: token, ca.crt
and namespace, which programs read from
` + kubeconfig.InClusterMount + `,
and a file env with KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT. Run it
again before the token expires; programs reload the token.

Exit codes: 0 succeeded, 1 the server refused or failed, 2 the command line is
invalid, 3 no server was found.`,
		Example: `  kube-hyper-mini kubeconfig create jane --group developers --expires 30d -o jane.kubeconfig
  kube-hyper-mini kubeconfig create jane --namespace team-a --role edit -o jane.kubeconfig
  kube-hyper-mini kubeconfig create --service-account team-a/controller --server https://mini.example.com:6443
  kube-hyper-mini kubeconfig create --service-account team-a/controller --in-cluster-env ./serviceaccount`,
		Args: func(cmd *cobra.Command, args []string) error { return usageError(flags.check(args)) },
		RunE: func(cmd *cobra.Command, args []string) error { return flags.create(cmd, args) },
	}
	flags.addAdmin(cmd.Flags())
	f := cmd.Flags()
	f.StringArrayVar(&flags.groups, "group", nil, "group of the user; may be repeated")
	f.StringVar(&flags.serviceAccount, "service-account", "",
		"namespace/name of a service account to make a token for, instead of a user")
	flags.expires = 30 * day
	addDuration(f, &flags.expires, "expires", "life of the certificate or the token, as 12h or 30d; at least 10m")
	f.StringVarP(&flags.namespace, "namespace", "n", "", "namespace of --role, and the one that kubectl uses by default")
	f.StringVar(&flags.role, "role", "", "role to bind to the user: "+strings.Join(kubeconfig.Roles(), ", "))
	completeFlag(cmd, "role", kubeconfig.Roles())
	f.BoolVarP(&flags.everywhere, "all-namespaces", "A", false, "bind --role in all namespaces")
	f.StringVar(&flags.server, "server", "", "URL of the server in the kubeconfig, if it differs from the administrator's")
	f.StringVarP(&flags.output, "output", "o", "", "file to write, readable for its owner only (default: standard output)")
	f.BoolVar(&flags.force, "force", false, "replace the file of --output if there is one")
	f.StringVar(&flags.inClusterDir, "in-cluster-env", "",
		"directory to write in-cluster configuration to, instead of a kubeconfig")
	return cmd
}

// check returns an error for an invalid command line.
func (f *createFlags) check(args []string) error {
	if err := cmp.Or(f.clientFlags.check(), f.checkRights(), checkReplace(f.output, f.force)); err != nil {
		return err
	}
	if f.server != "" { // else that of the administrator's kubeconfig
		if err := checkServerURL(f.server); err != nil {
			return err
		}
	}
	if f.serviceAccount == "" {
		return f.checkUser(args)
	}
	if len(args) > 0 || len(f.groups) > 0 {
		return errors.New("--service-account cannot be combined with NAME and --group: it determines the user and its groups")
	}
	switch {
	case f.inClusterDir != "" && f.output != "":
		return errors.New("--in-cluster-env and --output cannot be combined")
	case f.inClusterDir != "" && f.plane != "":
		return errPlaneInCluster
	}
	namespace, name, found := strings.Cut(f.serviceAccount, "/")
	if !found || len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return fmt.Errorf("--service-account %q is not namespace/name", f.serviceAccount)
	}
	return nil
}

// checkRights checks --namespace and --role.
func (f *createFlags) checkRights() error {
	if f.namespace != "" && len(validation.IsDNS1123Label(f.namespace)) > 0 {
		return fmt.Errorf("--namespace %q is not the name of a namespace: %s", f.namespace,
			validation.IsDNS1123Label(f.namespace)[0])
	}
	switch {
	case f.everywhere && f.role == "":
		return errors.New("--all-namespaces needs --role")
	case f.everywhere && f.namespace != "":
		return errors.New("--all-namespaces and --namespace exclude each other")
	}
	if f.role != "" && !slices.Contains(kubeconfig.Roles(), f.role) {
		return fmt.Errorf("--role %q is not supported; allowed: %s", f.role, strings.Join(kubeconfig.Roles(), ", "))
	}
	return nil
}

// checkReplace refuses to replace the file of --output without --force, and to make its directory.
func checkReplace(output string, force bool) error {
	switch _, err := os.Lstat(output); {
	case force && output == "":
		return errors.New("--force needs --output")
	case output == "json" || output == "yaml": // as the formats of other commands
		return fmt.Errorf("--output %s: here it names a file; write ./%s for one of that name", output, output)
	case output != "" && !force && err == nil:
		return fmt.Errorf("--output %s: the file exists; --force replaces it", output)
	}
	return checkDestination(output, "")
}

func (f *createFlags) checkUser(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("give one NAME, or --service-account namespace/name; got %s", quoted(args))
	}
	if f.inClusterDir != "" {
		return errors.New("--in-cluster-env needs --service-account: an in-cluster configuration has a token")
	}
	return f.user(args).Validate()
}

func (f *createFlags) user(args []string) kubeconfig.User {
	return kubeconfig.User{Name: args[0], Groups: f.groups, Expires: f.expires}
}

func (f *createFlags) create(cmd *cobra.Command, args []string) error {
	client, endpoint, err := f.connect(cmd, f.server)
	if err != nil {
		return err
	}
	switch {
	case f.inClusterDir == "":
	case planeOf(endpoint.Server) != "": // of the administrator's kubeconfig
		return usageError(errPlaneInCluster)
	case endpoint.TLSServerName != "" && (f.server == "" || f.kubeconfig == ""): // else --server may be of the certificate
		return usageError(fmt.Errorf("--in-cluster-env: the server's certificate does not have the host of %s, and an "+
			"in-cluster configuration cannot name %s instead: name a host of the certificate with --server, or start the "+
			"server with --tls-san HOST", endpoint.Server, endpoint.TLSServerName))
	}
	user, namespace := "", ""
	var credentials *kubeconfig.Credentials
	if f.serviceAccount != "" {
		var name string
		namespace, name, _ = strings.Cut(f.serviceAccount, "/")
		user = "system:serviceaccount:" + namespace + ":" + name
		credentials, err = kubeconfig.IssueToken(cmd.Context(), client, namespace, name, f.expires)
	} else {
		user = args[0]
		credentials, err = kubeconfig.IssueCertificate(cmd.Context(), client, f.user(args))
	}
	if err != nil {
		return err
	}
	text, err := f.giveRole(cmd, client, user)
	if err != nil {
		return err
	}
	if f.namespace != "" && f.inClusterDir == "" {
		namespace = f.namespace
	}
	if err := f.write(cmd, endpoint, user, namespace, credentials); err != nil {
		return err
	}
	if short := time.Now().Add(f.expires).Sub(credentials.Until); short > time.Hour {
		text += fmt.Sprintf("the server has shortened --expires %s\n", (*durationFlag)(&f.expires))
	}
	_, err = fmt.Fprintf(cmd.ErrOrStderr(), "%s%s can log in at %s until %s\n", text, user, endpoint.Server,
		credentials.Until.Local().Format(time.DateTime))
	return err
}

// giveRole makes the binding of --role, if there is one, and says what the user may do.
func (f *createFlags) giveRole(cmd *cobra.Command, client kubernetes.Interface, user string) (text string, err error) {
	if f.role == "" {
		flag := "--user " + logging.ShellWord(user)
		if f.serviceAccount != "" {
			flag = "--serviceaccount " + strings.Replace(f.serviceAccount, "/", ":", 1)
		}
		return fmt.Sprintf("%s has the rights of its bindings. This gives a role: kubectl create rolebinding NAME -n "+
			"NAMESPACE --clusterrole edit %s\n", user, flag), nil
	}
	namespace := f.namespace
	if namespace == "" && !f.everywhere {
		namespace, _, _ = strings.Cut(f.serviceAccount, "/") // empty for a user
	}
	done, err := kubeconfig.Bind(cmd.Context(), client, user, f.role, namespace)
	return fmt.Sprintf("%s has %s\n", user, done), err
}

func (f *createFlags) write(cmd *cobra.Command, endpoint kubeconfig.Endpoint, user, namespace string,
	credentials *kubeconfig.Credentials) error {
	if f.inClusterDir != "" {
		return kubeconfig.WriteInCluster(f.inClusterDir, endpoint, namespace, credentials)
	}
	data, err := kubeconfig.RenderUser(endpoint, user, namespace, credentials)
	if err != nil {
		return err
	}
	return writeKubeconfig(cmd, f.output, data)
}
