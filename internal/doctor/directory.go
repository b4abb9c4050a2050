package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/etcd"
	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
	"kube-hyper-mini.io/kube-hyper-mini/internal/pki"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/kube"
)

// program is the name of this program in commands of remedies.
const program = "kube-hyper-mini"

// Config is what the checks need of a server's configuration. Paths are absolute.
type Config struct {
	DataDir    string
	Kubeconfig string // the administrator's
	Serving    config.Serving
	Encryption config.Encryption
	// External has endpoints if the data is elsewhere.
	External config.ExternalEtcd
	// Quota of the embedded database, in bytes.
	Quota            int64
	ServiceEndpoints []config.ServiceEndpoint
	// Certificates lists those of the data directory.
	Certificates func() ([]pki.Entry, error)
	// OnOneDisk are the fields of directories for recovery that would be lost with the data.
	OnOneDisk []config.Field
}

// directory checks a data directory.
type directory struct {
	*Report
	config *Config
	now    func() time.Time
	space  func(dir string) (free, total int64, err error)
}

// Directory checks the data directory of the configuration.
// It returns an error for a directory that no server has used. running means that its
// server answers; the files of etcd are then not read.
func Directory(ctx context.Context, cfg *Config, running bool) (*Report, error) {
	d := &directory{Report: &Report{DataDir: cfg.DataDir, Running: running, Findings: []Finding{}}, config: cfg,
		now: time.Now, space: datadir.DiskSpace}
	if err := d.examine(ctx); err != nil {
		return nil, err
	}
	return d.Report, nil
}

func (d *directory) examine(ctx context.Context) error {
	if _, err := os.ReadDir(d.config.DataDir); errors.Is(err, fs.ErrPermission) {
		d.check("access", func(add func(Finding)) error { return d.access(add, err) })
		return nil
	}
	if err := datadir.Removable(d.config.DataDir); err != nil {
		return fmt.Errorf("%w; name a data directory with --data-dir or --config", err)
	}
	d.check("access", func(add func(Finding)) error { return d.access(add, datadir.CheckAccess(d.config.DataDir)) })
	d.check("modes", d.modes)
	d.check("release", d.release)
	d.check("certificates", d.certificates)
	d.check("encryption", d.encryption)
	d.check("disk", d.disk)
	if embedded := len(d.config.External.Endpoints) == 0; embedded || !d.Running {
		d.database(ctx, embedded)
	}
	d.sort()
	return nil
}

// interrupted reports whether the first start has not finished: the next one makes what
// is missing.
func (d *directory) interrupted() bool {
	stamp, err := datadir.ReadStamp(d.config.DataDir)
	return err == nil && (stamp == nil || stamp.FirstStart != "")
}

// named is the flag that names the data directory in a command.
func (d *directory) named() string { return " --data-dir " + logging.ShellWord(d.config.DataDir) }

// restore is the command that replaces the content of the data directory by a backup.
func (d *directory) restore() string { return program + " backup restore" + d.named() + " FILE" }

// access reports err, the error about a file that this user may not use; nil is no finding.
func (d *directory) access(add func(Finding), err error) error {
	if err == nil {
		return nil
	}
	add(Finding{
		Severity: Failure, Object: d.config.DataDir, Problem: err.Error(),
		Remedy: "run this command as the user that runs the server; if that user may not use them either, make it " +
			"their owner with chown -R; if the file system is read-only, mount it writable",
	})
	return nil
}

// modes reports files that other users may use.
func (d *directory) modes(add func(Finding)) error {
	for _, loose := range datadir.LooseModes(d.config.DataDir) {
		add(Finding{
			Severity: Risk, Object: loose.Path, Problem: fmt.Sprintf("it has the mode %04o, so that other users may "+
				"use it; it should have %04o", loose.Mode.Perm(), loose.Wanted.Perm()),
			Remedy:   "restrict the mode, and replace keys that others may have read (" + d.replacing(loose.Path) + ")",
			Commands: []string{fmt.Sprintf("chmod %04o %s", loose.Wanted.Perm(), logging.ShellWord(loose.Path))},
		})
	}
	return nil
}

// replacing is the remedy for a path with keys that others may have read.
func (d *directory) replacing(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), ".key")
	encryption := "start the server, then " + program + " encryption rotate" + d.named()
	switch kind, found := rotateKinds[name]; {
	case found:
		return program + " certs rotate " + kind + d.named()
	case name == pki.Admin:
		return program + " certs revoke-admin" + d.named()
	case filepath.Base(filepath.Dir(path)) == "encryption":
		return encryption
	}
	return program + " certs rotate NAME" + d.named() + "; " + encryption
}

// release reports data that this release cannot read.
func (d *directory) release(add func(Finding)) error {
	stamp, err := datadir.ReadStamp(d.config.DataDir)
	if err != nil || stamp == nil {
		return err
	}
	current := datadir.CurrentStamp()
	if stamp.NewerThan(current) {
		add(Finding{
			Severity: Failure, Object: d.config.DataDir, Problem: fmt.Sprintf("kube-hyper-mini %s has written it, "+
				"and this is %s, which cannot read it", stamp, current),
			Remedy: "run the newer release; or restore the backup before-upgrade-* that it made, see " + program +
				" backup list",
		})
	} else if err := current.CheckSkip(*stamp); err != nil {
		add(Finding{Severity: Failure, Object: d.config.DataDir, Problem: err.Error(),
			Remedy: "upgrade by one minor version at a time: run a release of each version in between once"})
	}
	return nil
}

// encryption reports that the server's own key, with which it has encrypted objects, is missing or
// damaged.
func (d *directory) encryption(add func(Finding)) error {
	if d.config.Encryption.ConfigFile != "" || len(d.config.Encryption.Resources) == 0 || d.interrupted() {
		return nil
	}
	file := filepath.Join(d.config.DataDir, "encryption", "config.yaml")
	err := kube.CheckEncryptionFile(file)
	if err == nil || errors.Is(err, fs.ErrPermission) {
		return err
	}
	problem := "the server does not start with it: " + err.Error()
	if errors.Is(err, fs.ErrNotExist) {
		problem = "it is missing: the server does not start if objects in etcd are encrypted with its key"
	}
	add(Finding{Severity: Failure, Object: file, Problem: problem, Remedy: d.recovery()})
	return nil
}

// recovery is the remedy for a file that is missing or damaged.
func (d *directory) recovery() string {
	return "take the file from a backup (" + program + " backup inspect FILE lists what it has), or restore one: " +
		d.restore()
}

// disk reports disks on which the server refuses writes, or soon will.
func (d *directory) disk(add func(Finding)) error {
	free, total, err := d.space(d.config.DataDir)
	if err != nil {
		return fmt.Errorf("read the free space of the disk: %w", err)
	}
	reserve := datadir.Reserve(total)
	finding := Finding{
		Object:  d.config.DataDir,
		Problem: fmt.Sprintf("its disk has %s free of %s", datadir.Size(free), datadir.Size(total)),
		Remedy: fmt.Sprintf("make room: the server needs %s, and as much again for backups; "+
			"old backups and before-restore-* can go",
			datadir.Size(2*reserve)),
	}
	switch {
	case free < reserve:
		finding.Severity, finding.Problem = Failure, finding.Problem+
			": reads and deletions are served, other writes are refused"
		add(finding)
	case free < 2*reserve:
		finding.Severity, finding.Problem = Risk, finding.Problem+": no backups are made, and soon writes are refused"
		add(finding)
	}
	for _, problem := range d.config.OnOneDisk {
		add(Finding{Severity: Risk, Object: problem.Value, Problem: problem.Path +
			" is on the disk of the data, and lost with it", Remedy: "choose a directory on another disk; " +
			"the systemd service needs ReadWritePaths for it (\"kube-hyper-mini help backup\")"})
	}
	return nil
}

// database checks whether a process holds the data directory without an answer. If none does, it
// checks the files of the embedded etcd, which no server may use meanwhile.
func (d *directory) database(ctx context.Context, embedded bool) {
	dir := filepath.Join(d.config.DataDir, "etcd")
	if d.Running {
		d.skip("database", "the server runs: it has checked the database at its start")
		return
	}
	release, err := datadir.Hold(d.config.DataDir)
	if errors.Is(err, datadir.ErrLocked) {
		d.check("server", func(add func(Finding)) error {
			if _, err := os.Stat(d.config.Kubeconfig); err != nil {
				return errors.New("a process that serves no API holds the data directory")
			}
			add(Finding{Severity: Failure, Object: d.config.DataDir, Problem: "a process holds the data directory " +
				"and does not answer as its server: " + err.Error(),
				Remedy: "read its log, which says what it waits for; if it hangs, send it SIGTERM twice, and start it again"})
			return nil
		})
		d.skip("database", "a process holds the data directory")
		return
	}
	if err != nil {
		d.skip("database", "%v", err)
		return
	}
	d.Stopped = true
	if embedded {
		d.check("quota", func(add func(Finding)) error { return d.quota(add, etcd.DatabaseFile(dir)) })
		d.check("database", func(add func(Finding)) error { return d.integrity(ctx, add, dir) })
	}
	if err := release(); err != nil {
		d.skip("lock", "%v", err)
	}
}

// integrity reports missing and damaged data.
func (d *directory) integrity(ctx context.Context, add func(Finding), dir string) error {
	if datadir.SwapInterrupted(d.config.DataDir) {
		add(Finding{Severity: Risk, Object: d.config.DataDir,
			Problem: "a restore was interrupted while it replaced the content",
			Remedy:  "start the server, or restore again: either completes the interrupted restore first"})
		return errors.New("a restore is not complete")
	}
	stamp, err := datadir.ReadStamp(d.config.DataDir)
	if err != nil || d.interrupted() {
		return err
	}
	if stamp.NewerThan(datadir.CurrentStamp()) {
		return errors.New("a newer release has written it")
	}
	restore := "restore a backup: " + d.restore() + "; " + program + " backup list" + d.named() + " shows what there is"
	if !etcd.Exists(dir) {
		add(Finding{Severity: Failure, Object: dir, Problem: "the directory was used before, but its database is missing",
			Remedy: "move the data back, or " + restore})
		return nil
	}
	err = etcd.Verify(ctx, dir)
	if damage := (*etcd.DamageError)(nil); ctx.Err() == nil && errors.As(err, &damage) {
		add(Finding{Severity: Failure, Object: dir, Problem: damage.Damage.Error(), Remedy: restore})
		return nil
	}
	return err
}

// quota reports a stopped server's database that is nearly full. A running server
// reports its own.
func (d *directory) quota(add func(Finding), file string) error {
	used, err := etcd.UsedSize(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the size of the database: %w", err)
	}
	checkQuota(add, file, used, d.config.Quota)
	return nil
}
