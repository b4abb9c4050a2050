package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/appliance/parts"
	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/journal"
	"kube-hyper-mini.io/kube-hyper-mini/internal/pki"
	"kube-hyper-mini.io/kube-hyper-mini/internal/planes"
)

const restoreHelp = `Replace the content of the data directory by that of a backup. The server
of that directory must be stopped. A directory that has data is named with --data-dir
or --config.

The backup is verified, and the new content is complete, before anything is moved.
The previous content is kept in a directory in the data directory, which the output
names. It can be used as a data directory itself. Control planes of the server (help
planes) stay as they are. With --plane it is one of them that is restored: it must
sleep, and the others serve.

The revision is raised above all that clients have seen, so that clients with a watch
list the objects again. The saved configuration is put beside the data for reading;
the server is still started with --config.

With --from it restores from a journal: the newest state, that of a
moment (--at), or of a revision (--revision). The chain is verified, and what
changed after its base is replayed. Where the chain is broken, the newest state is
the last one before the break.`

func newBackupRestore() *cobra.Command {
	flags, key := &configFlags{}, &keyFlags{}
	from := &fromFlags{}
	var at string
	var revision int64
	cmd := &cobra.Command{
		Use:   "restore FILE|--from DESTINATION",
		Short: "Replace the content of the data directory by a backup; keep the previous content",
		Long:  restoreHelp,
		Example: `  kube-hyper-mini backup restore /mnt/backups/today.tar.gz
  kube-hyper-mini backup restore --data-dir ./another today.tar.gz
  kube-hyper-mini backup restore --plane acme acme.tar.gz
  kube-hyper-mini backup restore --from /mnt/journal
  kube-hyper-mini backup restore --from s3://bucket/prefix --endpoint https://minio.example.org
  kube-hyper-mini backup restore --from /mnt/journal --at 2026-11-21T15:04:05Z
  kube-hyper-mini backup restore --from /mnt/journal --at "10m ago" --data-dir ./before`,
		Args: atMostOne("FILE"),
		RunE: flags.with(func(cmd *cobra.Command, args []string, cfg *config.ServerConfiguration) error {
			target, err := restoreTarget(at, revision)
			if err != nil {
				return err
			}
			if cfg, err = restoreInto(cmd, flags, cfg); err != nil {
				return err
			}
			restore := journal.RestoreConfig{Target: target, Key: key.key}
			switch {
			case (len(args) == 1) == (from.from != ""):
				return usageError(errors.New("give either the FILE of a backup or --from with a journal"))
			case from.from != "":
				if restore.Store, err = from.location(cfg).Open(); err != nil {
					return err
				}
			case target != (journal.Target{}):
				return usageError(errors.New("--at and --revision need --from: a backup is of one moment"))
			default:
				restore.File = args[0]
			}
			restored, err := restoreWith(cmd, cfg, restore)
			if err != nil {
				return mustSleep(flags.plane, err)
			}
			return printRestored(cmd.OutOrStdout(), cfg.DataDir, restored)
		}),
	}
	flags.addPlane(cmd.Flags())
	key.add(cmd.Flags())
	from.add(cmd.Flags(), "restore from the journal in this directory or s3://BUCKET/PREFIX")
	cmd.Flags().StringVar(&at, "at", "", "with --from: the state at this time, as 2026-11-21T15:04:05Z, \"2026-11-21 "+
		"15:04\" or \"10m ago\"")
	cmd.Flags().Int64Var(&revision, "revision", 0, "with --from: the state at this revision of etcd")
	return cmd
}

// restoreInto returns the configuration of what is restored: the server, whose data directory must
// be named if it has data, or the control plane of --plane, which must have been used before.
func restoreInto(cmd *cobra.Command, flags *configFlags,
	cfg *config.ServerConfiguration) (*config.ServerConfiguration, error) {
	if flags.plane == "" {
		return cfg, requireNamed(cfg.DataDir, cmd.Flags().Changed("data-dir") || cmd.Flags().Changed("config"))
	}
	cfg, err := planeConfig(cfg, flags.plane)
	if err == nil {
		err = requireUsed(cmd, flags, cfg.DataDir)
	}
	return cfg, err
}

// requireNamed returns an error if a restore would replace the content of a data directory
// that no flag names.
func requireNamed(dataDir string, named bool) error {
	if stamp, err := datadir.ReadStamp(dataDir); named || stamp == nil || err != nil {
		return err
	}
	return usageError(fmt.Errorf("%s has the data of a server, which this would replace: name it with --data-dir %s, "+
		"or name another directory", dataDir, dataDir))
}

// restoreWith restores and says what it does.
func restoreWith(cmd *cobra.Command, cfg *config.ServerConfiguration,
	restore journal.RestoreConfig) (*backup.Restored, error) {
	log, err := commandLog(cmd, cfg)
	if err != nil {
		return nil, err
	}
	errOut := cmd.ErrOrStderr()
	restore.Say = func(format string, args ...any) {
		_, _ = fmt.Fprintf(errOut, format+"\n", args...) // the restore continues
	}
	return parts.Restore(cmd.Context(), cfg, log, restore)
}

// otherAuthority reports whether two data directories have authorities of their own: a backup of
// another server or control plane was restored, or one of before a rotation.
func otherAuthority(a, b string) bool {
	authority := filepath.Join("pki", pki.ServerCA+".crt")
	first, err := os.ReadFile(filepath.Join(a, authority))
	second, errB := os.ReadFile(filepath.Join(b, authority))
	return err == nil && errB == nil && string(first) != string(second)
}

// printRestored prints the result of a restore.
func printRestored(out io.Writer, dataDir string, restored *backup.Restored) error {
	m := restored.Manifest
	text := fmt.Sprintf("restored %s: %s as of revision %d\n%s", dataDir, quantity(m.Objects(), "object"),
		m.Snapshot.Revision, leftOut(m))
	if restored.Config != "" {
		text += fmt.Sprintf("the saved configuration is in %s\n", restored.Config)
	}
	kept := planes.Dir(dataDir, "")
	if found, _ := datadir.Exists(kept); found { // a sentence for people
		text += fmt.Sprintf("the control planes in %s are as they were, and have backups of their own\n", kept)
	}
	if restored.Old != "" && otherAuthority(restored.Old, dataDir) {
		text += "the certificate authority differs from the previous one: " +
			"clients that trust the previous one reject this server\n"
	}
	if restored.Old != "" {
		text += fmt.Sprintf("the previous content is in %s\n", restored.Old)
	}
	_, err := io.WriteString(out, text)
	return err
}
