package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/admin"
	"kube-hyper-mini.io/kube-hyper-mini/internal/appliance/parts"
	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
	"kube-hyper-mini.io/kube-hyper-mini/internal/planes"
)

func newBackup() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup",
		Short: "Save, list, inspect and restore the data of a server",
		Long: `Save, list, inspect and restore the data of a server: the objects, the
certificates and keys, the keys that encrypt resources, and the configuration.

A backup contains all private keys of the server. Protect it like a private
key, or encrypt it with --encrypt-to.`,
	}
	cmd.AddCommand(newBackupSave(), newBackupList(), newBackupInspect(), newBackupRestore())
	return cmd
}

// encryptFlags select the recipients that backups are encrypted to.
type encryptFlags struct {
	encryption backup.Encryption
	plain      bool
}

func (f *encryptFlags) add(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.encryption.Recipients, "encrypt-to", nil, "age recipient (age1...) that can decrypt the "+
		"backup, instead of backup.encryptTo; may be repeated")
	flags.BoolVar(&f.plain, "plain", false, "do not encrypt; overrides backup.encryptTo")
}

// resolve returns the recipients of the flags or, without any, of the configuration.
func (f *encryptFlags) resolve(cfg *config.ServerConfiguration) (backup.Encryption, error) {
	given := len(f.encryption.Recipients) > 0
	switch {
	case given && f.plain:
		return backup.Encryption{}, usageError(errors.New("--plain contradicts --encrypt-to: give one of them"))
	case given:
		return f.encryption, usageError(f.encryption.Validate())
	case f.plain:
		return backup.Encryption{}, nil
	default:
		return backup.Encryption{Recipients: cfg.Backup.EncryptTo}, nil
	}
}

// keyFlags select the key that decrypts a backup.
type keyFlags struct{ key backup.Key }

func (f *keyFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.key.IdentityFile, "identity", "", "age identity file that decrypts the backup")
}

func newBackupSave() *cobra.Command {
	flags, encryption := &configFlags{}, &encryptFlags{}
	var noKeys bool
	cmd := &cobra.Command{
		Use:   "save [FILE|-]",
		Short: "Save a backup, of a running server or of a stopped one",
		Long: `Save a backup, of a running server or of a stopped one. Without FILE the
backup is written to the directory backup.dir of the configuration, which is made if
it is missing. The directory of FILE must exist; - is standard output.

From a running server the command requests the objects through the API, with the
administrator's kubeconfig in the data directory, and reads the keys from the
data directory. Other users with the right to POST to the path
/kube-hyper-mini/backup get backups without keys, or backups that are encrypted
to backup.encryptTo. The backup is verified before the file gets its name. It is
encrypted to backup.encryptTo unless a flag says otherwise.`,
		Example: `  kube-hyper-mini backup save
  kube-hyper-mini backup save --encrypt-to age1... /mnt/backups/today.tar.gz.age
  kube-hyper-mini backup save --plane acme /mnt/backups/acme.tar.gz
  kube-hyper-mini backup save - | ssh elsewhere 'cat > today.tar.gz'`,
		Args: atMostOne("FILE"),
		RunE: flags.with(func(cmd *cobra.Command, args []string, cfg *config.ServerConfiguration) error {
			to, err := encryption.resolve(cfg)
			if err != nil {
				return err
			}
			if cfg, err = planeConfig(cfg, flags.plane); err != nil {
				return err
			}
			options := backup.Options{Reason: backup.ReasonManual, WithoutKeys: noKeys}
			file := filepath.Join(cfg.Backup.Dir, backup.FileName(options.Reason, to, time.Now()))
			if len(args) == 1 {
				file = args[0]
			}
			produce, err := backupFrom(cmd, flags, cfg, options)
			if err != nil {
				return err
			}
			return saveBackup(cmd, cfg, file, to, produce)
		}),
	}
	flags.addPlane(cmd.Flags())
	encryption.add(cmd.Flags())
	cmd.Flags().BoolVar(&noKeys, "no-keys", false, "leave out certificates and keys; a restore then needs them from "+
		"another backup")
	return cmd
}

// planeConfig returns the configuration of a control plane of the server; that of the server
// without a name.
func planeConfig(cfg *config.ServerConfiguration, plane string) (*config.ServerConfiguration, error) {
	if err := checkPlane(plane); err != nil || plane == "" {
		return cfg, err
	}
	copied := *cfg
	copied.DataDir = planes.Dir(cfg.DataDir, plane)
	copied.Backup.Dir = planes.BackupDir(cfg, plane)
	copied.Journal.Destination = "" // the server's
	copied.Etcd.Embedded.QuotaBackend, copied.ServiceEndpoints = cfg.Planes.QuotaBackend, nil
	return &copied, nil
}

// saveBackup writes the backup to the file, or to standard output for "-", and
// prints a summary to standard error.
func saveBackup(cmd *cobra.Command, cfg *config.ServerConfiguration, file string, encryption backup.Encryption,
	produce backup.Produce) error {
	if err := checkDestination(file, cfg.Backup.Dir); err != nil {
		return err
	}
	var m *backup.Manifest
	var err error
	if file == "-" {
		if isTerminal(cmd.OutOrStdout()) {
			return usageError(errors.New("standard output is a terminal; give a FILE or redirect it"))
		}
		m, err = backup.Copy(cmd.Context(), cmd.OutOrStdout(), encryption, produce)
	} else {
		m, err = backup.Save(cmd.Context(), file, encryption, produce)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.ErrOrStderr(), "saved %s: %s at revision %d\n%s", file, quantity(m.Objects(), "object"),
		m.Snapshot.Revision, leftOut(m))
	return err
}

// checkDestination returns an error for a file in a directory that does not exist, as a
// mistyped path. The directory made, which may be empty, is made where it is needed.
func checkDestination(file, made string) error {
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return fmt.Errorf("find the directory of %s: %w", file, err)
	}
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) && file != "-" && dir != made {
		return usageError(fmt.Errorf("the directory %s does not exist: make it first, or choose another file", dir))
	}
	return nil
}

// backupFrom returns a producer that reads from the running server or, if none runs, from
// the data directory. That of a control plane is read through the running server only.
func backupFrom(cmd *cobra.Command, flags *configFlags, cfg *config.ServerConfiguration,
	options backup.Options) (backup.Produce, error) {
	if err := requireUsed(cmd, flags, cfg.DataDir); err != nil { // before a directory is made
		return nil, fmt.Errorf("nothing to save: %w", err)
	}
	return func(ctx context.Context, w io.Writer) error {
		return onServer(cmd, flags, func(log *slog.Logger) error {
			return parts.SaveBackup(ctx, cfg, log, w, options)
		}, func(kubeconfig []byte) error {
			var keys *backup.Source
			if !options.WithoutKeys {
				keys = &backup.Source{DataDir: cfg.DataDir, ConfigFiles: cfg.InputFiles()}
			}
			return admin.SaveBackup(ctx, kubeconfig, w, keys)
		})
	}, nil
}

func newBackupList() *cobra.Command {
	flags, key := &configFlags{}, &keyFlags{}
	from := &fromFlags{}
	var dir string
	var output format
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the backups in the configured directory, or what a journal has",
		Example: `  kube-hyper-mini backup list
  kube-hyper-mini backup list --plane acme
  kube-hyper-mini backup list --from s3://bucket/prefix -o yaml`,
		RunE: flags.with(func(cmd *cobra.Command, _ []string, cfg *config.ServerConfiguration) error {
			if from.from != "" {
				return listJournal(cmd, cfg, from, output)
			}
			cfg, err := planeConfig(cfg, flags.plane)
			if err != nil {
				return err
			}
			if dir == "" {
				dir = cfg.Backup.Dir
			} else if _, err := os.Stat(dir); err != nil {
				return fmt.Errorf("list the backups: %w", err) // the default is made by the first backup
			}
			backups, err := backup.List(dir, key.key)
			if err == nil && flags.plane != "" {
				err = noteJournal(cmd, flags, cfg, len(backups))
			}
			if err != nil {
				return err
			}
			return output.write(cmd.OutOrStdout(), backups, func(w io.Writer) error {
				if len(backups) == 0 {
					_, err := fmt.Fprintf(cmd.ErrOrStderr(), "no backups in %s\n", dir)
					return err
				}
				return printBackups(w, backups)
			})
		}),
	}
	flags.addPlane(cmd.Flags())
	key.add(cmd.Flags())
	cmd.Flags().StringVar(&dir, "dir", "", "another directory to list")
	output.add(cmd)
	from.add(cmd.Flags(),
		"say which moments can be restored from the journal in this directory or s3://BUCKET/PREFIX, and what is missing")
	return cmd
}

func printBackups(w io.Writer, backups []backup.Listed) error {
	return writeTable(w, func(row func(format string, args ...any)) {
		row("CREATED\tSIZE\tREVISION\tOBJECTS\tVERSION\tFILE")
		for _, a := range backups {
			created, revision, count, version := a.Modified, "-", "-", a.Problem
			if m := a.Manifest; m != nil {
				created, version = m.Created, m.Stamp.Version
				revision, count = fmt.Sprint(m.Snapshot.Revision), fmt.Sprint(m.Objects())
			} else if a.Encrypted {
				version = "(encrypted)"
			}
			row("%s\t%s\t%s\t%s\t%s\t%s", created.Local().Format(time.DateTime), bytes(a.SizeBytes), revision, count, version,
				a.Path)
		}
	})
}

func newBackupInspect() *cobra.Command {
	key := &keyFlags{}
	var output format
	cmd := &cobra.Command{
		Use:   "inspect FILE",
		Short: "Verify a backup and print its content",
		Example: `  kube-hyper-mini backup inspect today.tar.gz
  kube-hyper-mini backup inspect today.tar.gz.age --identity key.txt`,
		Args: exactly("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := os.Open(args[0])
			if err != nil {
				return fmt.Errorf("inspect: %w", err)
			}
			defer func() { _ = file.Close() }() // only read
			m, err := key.key.Read(cmd.Context(), file, nil)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			return output.write(cmd.OutOrStdout(), m, func(w io.Writer) error { return printManifest(w, m) })
		},
	}
	key.add(cmd.Flags())
	output.add(cmd)
	return cmd
}

func printManifest(w io.Writer, m *backup.Manifest) error {
	return writeTable(w, func(row func(format string, args ...any)) {
		row("created\t%s on %s (%s)", m.Created.Local().Format(time.DateTime), m.Host, m.Reason)
		row("written by\tkube-hyper-mini %s", m.Stamp)
		row("revision\t%d", m.Snapshot.Revision)
		row("database\t%s", bytes(m.Snapshot.SizeBytes))
		row("hash\tsha256:%s", m.Snapshot.SHA256)
		for _, file := range m.Files {
			row("file\t%s, %s", file.Name, bytes(file.SizeBytes))
		}
		for _, name := range m.LeftOut {
			row("left out\t%s", name)
		}
		for _, resource := range slices.Sorted(maps.Keys(m.Snapshot.Resources)) {
			count := m.Snapshot.Resources[resource]
			note := ""
			if count.Encrypted > 0 {
				note = fmt.Sprintf(", %d encrypted", count.Encrypted)
			}
			row("objects\t%d %s%s", count.Objects, resource, note)
		}
	})
}

// leftOut is a line about the files that the backup lacks, and what a restore then needs; empty
// for a complete one.
func leftOut(m *backup.Manifest) string {
	if len(m.LeftOut) == 0 {
		return ""
	}
	text := "without keys: a restored server starts only with --new-identity, and existing kubeconfigs and tokens " +
		"are then invalid"
	for _, resource := range slices.Sorted(maps.Keys(m.Snapshot.Resources)) {
		if n := m.Snapshot.Resources[resource].Encrypted; n > 0 {
			text += fmt.Sprintf("; %d %s are encrypted and cannot be read", n, resource)
		}
	}
	return fmt.Sprintf("%s. To keep them valid, copy the files that were left out (%s) to the data directory before "+
		"the start\n", text, strings.Join(directories(m.LeftOut), ", "))
}

// directories returns the directories of the files.
func directories(files []string) []string {
	var dirs []string
	for _, file := range files {
		if dir := path.Dir(file) + "/"; !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}
