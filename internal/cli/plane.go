package cli

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/admin"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
	"kube-hyper-mini.io/kube-hyper-mini/internal/planes"
)

var errNoPlane = errors.New("it is empty: name a ControlPlane")

// errUnknownPlane is in the error about a control plane that the server does not have.
var errUnknownPlane = errors.New("there is no control plane")

// planeObject is what commands read of a ControlPlane.
type planeObject struct {
	Spec   planes.Spec   `json:"spec"`
	Status planes.Status `json:"status"`
}

// findPlane reads a ControlPlane from the server of the kubeconfig. It does not wake it.
func findPlane(cmd *cobra.Command, kubeconfig []byte, plane string) (*planeObject, error) {
	if err := checkPlane(plane); err != nil {
		return nil, err
	}
	config, _, err := connection(cmd, kubeconfig)
	if err != nil {
		return nil, err
	}
	config.Timeout = requestTimeout
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("use the kubeconfig: %w", err)
	}
	object, err := client.Resource(planes.Resource).Get(cmd.Context(), plane, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
		return nil, fmt.Errorf("%w %s: the server at %s has none; planes.enabled of its configuration is not set",
			errUnknownPlane, plane, config.Host)
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("%w %s: kubectl get controlplanes lists them", errUnknownPlane, plane)
	case apierrors.IsUnauthorized(err):
		return nil, admin.Refused(config.Host)
	case err != nil && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown: // not of the API
		return nil, admin.NoAnswer(config.Host, err)
	case err != nil:
		return nil, fmt.Errorf("read the ControlPlane %s: %w", plane, err)
	}
	found := &planeObject{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, found); err != nil {
		return nil, fmt.Errorf("read the ControlPlane %s: %w", plane, err)
	}
	return found, nil
}

// refuseUnknown returns an error if the server runs and says that it has no control plane of the
// name in --plane. Without that flag it is nil.
func (f *clientFlags) refuseUnknown(cmd *cobra.Command) error {
	if f.plane == "" {
		return nil
	}
	kubeconfig, err := f.readServer(cmd)
	if err != nil {
		return err
	}
	if _, err := findPlane(cmd, kubeconfig, f.plane); errors.Is(err, errUnknownPlane) {
		return err
	}
	return checkPlane(f.plane)
}

// noteJournal adds to a list of backups of the control plane of --plane how its journal is listed, if
// the server runs. A control plane that does not exist and has no backups is an error.
func noteJournal(cmd *cobra.Command, flags *configFlags, cfg *config.ServerConfiguration, backups int) error {
	kubeconfig, err := readLocalKubeconfig(cmd, flags)
	if err != nil {
		return nil // the server has never run
	}
	found, err := findPlane(cmd, kubeconfig, flags.plane)
	if errors.Is(err, errUnknownPlane) && backups == 0 {
		return err
	}
	if err != nil {
		return nil // it is a former one, or the server is stopped
	}
	if cfg, err = withPlaneJournal(cfg, flags.plane, found); err == nil { // else it has none
		_, err = fmt.Fprintf(cmd.ErrOrStderr(), "for its journal: kube-hyper-mini backup list --from %s\n",
			logging.ShellWord(cfg.Journal.Destination))
		return err
	}
	return nil
}

// mustSleep adds the remedy to the error of a restore into a control plane that is awake.
func mustSleep(plane string, err error) error {
	if plane == "" || !errors.Is(err, datadir.ErrLocked) {
		return err
	}
	return fmt.Errorf("restore the control plane %[1]s: it is awake: wait until \"kubectl get controlplane %[1]s\" says "+
		"Asleep, or make another ControlPlane whose spec.from names the backup or journal (help planes)", plane)
}

// requireUsed returns an error if no server has used the data directory, that of a control plane with
// --plane.
func requireUsed(cmd *cobra.Command, flags *configFlags, dataDir string) error {
	err := datadir.RequireUsed(dataDir)
	if err == nil || flags.plane == "" {
		return err
	}
	if unknown := (&clientFlags{configFlags: *flags}).refuseUnknown(cmd); unknown != nil {
		return unknown
	}
	return neverUsed(flags.plane, "data", err)
}

// neverUsed is err about a control plane whose directory lacks something.
func neverUsed(plane, lacks string, err error) error {
	return fmt.Errorf("the control plane %s does not exist (kubectl get controlplanes lists them) or has no %s yet, "+
		"which its first request makes: %w", plane, lacks, err)
}

// ofPlane returns the configuration with the journal of the control plane of --plane instead of
// the server's, which has the objects of others.
func (f *objectFlags) ofPlane(cmd *cobra.Command,
	cfg *config.ServerConfiguration) (*config.ServerConfiguration, error) {
	kubeconfig, err := f.readServer(cmd)
	if err != nil {
		return nil, err
	}
	found, err := findPlane(cmd, kubeconfig, f.plane)
	if errors.Is(err, admin.ErrNoAnswer) {
		return nil, f.unanswered(err)
	}
	if err != nil {
		return nil, err
	}
	return withPlaneJournal(cfg, f.plane, found)
}

// withPlaneJournal returns the configuration with the journal of the control plane.
func withPlaneJournal(cfg *config.ServerConfiguration, plane string,
	found *planeObject) (*config.ServerConfiguration, error) {
	name := found.Status.Journal
	switch {
	case found.Spec.Journal == nil:
		return nil, fmt.Errorf("the control plane %s has no journal: its spec.journal is not set", plane)
	case name == "." || name != path.Base(name) || !filepath.IsLocal(name):
		return nil, fmt.Errorf("the control plane %s has no journal yet: its status.journal is %q", plane, name)
	case cfg.Planes.Journal == "":
		return nil, usageError(fmt.Errorf("the journal of the control plane %s cannot be found, because this configuration "+
			"has no planes.journal: name the server's file with --config, or the journal with --from", plane))
	}
	changed := *cfg
	changed.Etcd.External = config.Default().Etcd.External // the keys of control planes have no other prefix
	changed.Journal.Destination = planes.JournalLocation(cfg, name)
	changed.Journal.Interval.Duration = planes.JournalInterval(cfg, found.Spec)
	return &changed, nil
}

// planeOf returns the name of the control plane at a URL; empty for the server itself.
func planeOf(url string) string {
	_, name, _ := strings.Cut(strings.TrimSuffix(url, "/"), "/clusters/")
	return name
}

// refusePlaneOfPlane returns an error for a kubeconfig that --plane cannot be added to: that of a
// control plane.
func refusePlaneOfPlane(cmd *cobra.Command, kubeconfig []byte, file string) error {
	config, _, err := connection(cmd, kubeconfig)
	if err != nil || planeOf(config.Host) == "" {
		return err
	}
	return usageError(fmt.Errorf("the kubeconfig %s is that of the control plane %s already: leave out --plane", file,
		planeOf(config.Host)))
}

// refuseServerJournal returns an error for a control plane that the kubeconfig names without
// --plane: the journal of the configuration is the server's, with the objects of others.
func (f *objectFlags) refuseServerJournal(url string) error {
	plane := planeOf(url)
	if plane == "" || f.plane != "" || f.from.from != "" {
		return nil
	}
	return usageError(fmt.Errorf("the kubeconfig is that of the control plane %s, and the journal that of its server: "+
		"name that of the control plane with --from, or leave out --kubeconfig and give --plane %s", plane, plane))
}
