package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kube-hyper-mini.io/kube-hyper-mini/internal/admin"
	"kube-hyper-mini.io/kube-hyper-mini/internal/history"
	"kube-hyper-mini.io/kube-hyper-mini/internal/journal"
	"kube-hyper-mini.io/kube-hyper-mini/internal/testplane"
	"kube-hyper-mini.io/kube-hyper-mini/internal/undelete"
)

func newHistory() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "history",
		Short: "List and show the versions of an object in the journal",
		Long: `List and show the versions of an object in the journal.

KIND is a type as kubectl knows it: widget, widgets, a short name, or
widgets.example.com, also for a type that the server does not have any more. The
commands read the journal itself: they need the right to read its files or its
bucket, and the key of an encrypted one. Who can read a journal can read all
objects in it.`,
	}
	cmd.AddCommand(newHistoryGet(), newHistoryShow())
	return cmd
}

// objectFlags locate an object in a journal.
type objectFlags struct {
	clientFlags
	key       keyFlags
	from      fromFlags
	namespace string
	at        string
	revision  int64
}

func (f *objectFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.addClient(flags, "kubeconfig of the server (default: the local server's administrator, or KUBECONFIG without one)")
	f.addContext(flags)
	f.key.add(flags)
	f.from.add(flags, "the journal in this directory or s3://BUCKET/PREFIX (default: journal.destination, "+
		"or with --plane that of the control plane)")
	flags.StringVarP(&f.namespace, "namespace", "n", "", "namespace of the object (default: that of the context)")
}

func (f *objectFlags) addTarget(cmd *cobra.Command, at, revision string) {
	cmd.Flags().StringVar(&f.at, "at", "", at)
	cmd.Flags().Int64Var(&f.revision, "revision", 0, revision)
}

// selectedObject is the object that the flags and arguments select, with its journal and
// its server.
type selectedObject struct {
	client  *undelete.Client
	journal *history.Journal
	object  history.Object
	target  journal.Target
	// wait bounds the wait for the journal to have all changes; 0 on an external etcd.
	wait time.Duration
}

// minJournalWait is for an upload, and for intervals that the command does not know.
const minJournalWait = time.Minute

// open finds the journal, the server and the object. It does not read the journal.
func (f *objectFlags) open(cmd *cobra.Command, args []string) (*selectedObject, error) {
	cfg, err := completed(cmd, &f.configFlags)
	if err != nil {
		return nil, err
	}
	target, err := restoreTarget(f.at, f.revision)
	if err != nil {
		return nil, err
	}
	if f.plane != "" && f.from.from == "" {
		if cfg, err = f.ofPlane(cmd, cfg); err != nil {
			return nil, err
		}
	}
	location := f.from.location(cfg)
	if location.URL == "" {
		return nil, usageError(errors.New("there is no journal: set journal.destination and name the file with " +
			"--config, or name the journal with --from"))
	}
	store, err := location.Open()
	if err != nil {
		return nil, err
	}
	config, namespace, err := f.server(cmd)
	if err != nil {
		return nil, err
	}
	client, err := undelete.NewClient(config)
	if err != nil {
		return nil, err
	}
	kind, name, err := kindAndName(args)
	if err != nil {
		return nil, err
	}
	object := history.Object{Name: name}
	if object.Type, err = history.Resolve(client.Mapper, kind); err != nil {
		return nil, err
	}
	if object.Namespaced || object.Kind == "" {
		object.Namespace = namespace
	}
	p := &selectedObject{client: client, object: object, target: target}
	errOut := cmd.ErrOrStderr()
	say := func(format string, args ...any) {
		_, _ = fmt.Fprintf(errOut, format+"\n", args...) // the command continues
	}
	if len(cfg.Etcd.External.Endpoints) == 0 {
		p.wait = minJournalWait + cfg.Journal.Interval.Duration
	}
	reader := journal.Reader{Store: store, Key: f.key.key}
	p.journal = history.New(reader, cfg.Etcd.External.Prefix, say)
	return p, nil
}

// server returns the connection and the namespace that the flags select. Where neither a flag nor
// KUBE_HYPER_MINI_DATA_DIR names a server and there is none on this machine, KUBECONFIG does.
func (f *objectFlags) server(cmd *cobra.Command) (*rest.Config, string, error) {
	data, err := f.read(cmd)
	named := f.kubeconfig != "" || f.dataDir != "" || f.file != "" || os.Getenv(testplane.DataDirVariable) != "" ||
		f.plane != "" // of the server on this machine
	exit := new(exitError)
	switch {
	case !named && errors.As(err, &exit) && exit.code == ExitNotReady &&
		os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != "":
		loaded, err := clientcmd.NewDefaultClientConfigLoadingRules().Load()
		if err != nil {
			return nil, "", usageError(fmt.Errorf("read KUBECONFIG: %w", err))
		}
		if data, err = f.only(loaded, clientcmd.RecommendedConfigPathEnvVar); err != nil {
			return nil, "", err
		}
		if err := admin.Reachable(cmd.Context(), data); err != nil {
			return nil, "", &exitError{ExitNotReady, fmt.Errorf("%w KUBECONFIG names it: there is no server in %s", err,
				f.complete.DataDir)}
		}
	case err != nil:
		return nil, "", err
	case f.kubeconfig == "" && f.context != "":
		return nil, "", usageError(errors.New("--context needs --kubeconfig, the file that has the context"))
	default:
		if err := admin.Reachable(cmd.Context(), data); err != nil {
			return nil, "", f.unanswered(err)
		}
	}
	config, namespace, err := connection(cmd, data)
	if err != nil {
		return nil, "", err
	}
	return config, cmp.Or(f.namespace, namespace), f.refuseServerJournal(config.Host)
}

// kindAndName reads KIND NAME or KIND/NAME.
func kindAndName(args []string) (kind, name string, err error) {
	if len(args) == 1 {
		kind, name, _ = strings.Cut(args[0], "/")
	} else {
		kind, name = args[0], args[1]
	}
	if kind == "" || name == "" || strings.Contains(name, "/") {
		return "", "", usageError(fmt.Errorf("%q is not an object: write KIND NAME or KIND/NAME", strings.Join(args, " ")))
	}
	return kind, name, nil
}

// oneObject accepts KIND NAME and KIND/NAME.
func oneObject(cmd *cobra.Command, args []string) error {
	if len(args) == 2 || len(args) == 1 && strings.Contains(args[0], "/") {
		return nil
	}
	return usageError(fmt.Errorf("%q takes KIND NAME, got %s", cmd.CommandPath(), quoted(args)))
}

func newHistoryGet() *cobra.Command {
	flags := &objectFlags{}
	var output format
	var limit int
	var since string
	cmd := &cobra.Command{
		Use:   "get KIND NAME",
		Short: "List the versions of an object",
		Long: `List the versions of an object, the newest last. The journal is read from its
beginning, or with --since from a base before that time.

TIME is when the change was read for the journal; "<" means that it was made earlier.
MANAGER is the field manager of the change, SIZE that of the object in etcd.`,
		Example: `  kube-hyper-mini history get configmap settings -n team
  kube-hyper-mini history get widgets.example.com/one --since 24h --from /mnt/journal`,
		Args: oneObject,
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 0 {
				return usageError(errors.New("--limit must not be negative"))
			}
			from, err := parseSince(since, time.Now())
			if err != nil {
				return usageError(fmt.Errorf("--since: %w", err))
			}
			p, err := flags.open(cmd, args)
			if err != nil {
				return err
			}
			versions, err := p.journal.Versions(cmd.Context(), p.object, from, limit)
			if err != nil {
				return err
			}
			if len(versions) == 0 {
				return fmt.Errorf("the journal has no version of %s; a change is in it after journal.interval", p.object)
			}
			return output.write(cmd.OutOrStdout(), versions, func(w io.Writer) error { return printVersions(w, versions) })
		},
	}
	flags.add(cmd)
	output.add(cmd)
	cmd.Flags().IntVar(&limit, "limit", 1000, "how many versions to list, the newest; 0 for all")
	cmd.Flags().StringVar(&since, "since", "", "list only versions that are younger than this, as 24h, \"7d ago\" or "+
		"a time as in --at of history show")
	return cmd
}

func printVersions(w io.Writer, versions []history.Version) error {
	return writeTable(w, func(row func(format string, args ...any)) {
		row("REVISION\tTIME\tCHANGE\tMANAGER\tSIZE")
		for _, v := range versions {
			at, manager, size := v.Time.Local().Format("2006-01-02 15:04:05.000"), cmp.Or(v.Manager, "-"), "-"
			if v.Before {
				at = "< " + at
			}
			if v.Change != history.Deleted {
				size = bytes(int64(v.SizeBytes))
			}
			if v.Problem != "" {
				manager = "(" + v.Problem + ")"
			}
			row("%d\t%s\t%s\t%s\t%s", v.Revision, at, v.Change, manager, size)
		}
	})
}

func newHistoryShow() *cobra.Command {
	flags := &objectFlags{}
	var output format
	var managed bool
	cmd := &cobra.Command{
		Use:   "show KIND NAME --at TIME|--revision N",
		Short: "Print an object as it was",
		Example: `  kube-hyper-mini history show configmap settings -n team --at 2026-11-21T15:04:05Z
  kube-hyper-mini history show secret/token --revision 4711 -o json`,
		Args: oneObject,
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := flags.open(cmd, args)
			if err != nil {
				return err
			}
			if p.target == (journal.Target{}) {
				return usageError(errors.New("give the time with --at or --revision; history get lists the versions"))
			}
			object, err := p.show(cmd, p.target)
			if err != nil {
				return err
			}
			if !managed {
				object.SetManagedFields(nil)
			}
			return output.write(cmd.OutOrStdout(), object.Object, nil)
		},
	}
	flags.add(cmd)
	flags.addTarget(cmd, "the object at this time, as 2026-11-21T15:04:05Z", "the object at this revision")
	output.add(cmd, "yaml", "json")
	cmd.Flags().BoolVar(&managed, "show-managed-fields", false, "print metadata.managedFields, too")
	return cmd
}

func (p *selectedObject) show(cmd *cobra.Command, target journal.Target) (*unstructured.Unstructured, error) {
	moment, err := p.journal.Moment(cmd.Context(), target)
	if err != nil {
		return nil, err
	}
	object, version, err := p.journal.At(cmd.Context(), p.object, moment)
	if err != nil {
		return nil, err
	}
	if version.Revision != target.Revision {
		_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "the version of revision %d\n", version.Revision) // the object follows
	}
	return object, nil
}
