package planes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/robfig/cron/v3"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/appliance/parts"
	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
)

// backupRetry is the time until a failed backup is tried again.
const backupRetry = 10 * time.Minute

// nextBackup returns when the backup of a control plane that sleeps is due: at the first time of
// the schedule after its data was last in use, unless there is a backup since. Zero means never.
// While it is awake, its own server makes the backups.
func (p *plane) nextBackup(of Backup) time.Time {
	schedule, err := cron.ParseStandard(of.Schedule)
	if err != nil { // there is none
		return time.Time{}
	}
	closed := p.modified("etcd") // its entries change when it starts and stops
	if closed.IsZero() {
		return time.Time{} // it has no data yet
	}
	if written := p.modified("etcd", "member", "snap", "db"); written.After(closed) {
		closed = written // the host was killed
	}
	if _, last, err := backup.Latest(BackupDir(p.manager.config.Host, p.name), backup.ReasonScheduled); err == nil &&
		!last.Before(closed.Truncate(time.Second)) {
		return time.Time{}
	}
	return schedule.Next(closed)
}

// warnOfDisk warns once, for all control planes, that their backups or journals would be lost with
// their data. cfg is the configuration of one of them that has a directory.
func (m *Manager) warnOfDisk(cfg *config.ServerConfiguration) {
	fields := map[string]string{"journal.destination": "planes.journal", "backup.dir": "planes.backupDir"}
	for _, of := range parts.OnOneDisk(cfg) {
		if _, warned := m.warnedOfDisk.LoadOrStore(of.Path, true); !warned {
			parts.WarnOfDisk(m.config.Log, config.Field{Path: fields[of.Path], Value: filepath.Dir(of.Value)})
		}
	}
}

// modified returns when a file or directory in that of the control plane was changed; zero if that
// is not known.
func (p *plane) modified(elem ...string) time.Time {
	info, err := os.Stat(filepath.Join(append([]string{p.dir()}, elem...)...))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// backupAsleep makes the scheduled backup of a control plane that sleeps.
func (p *plane) backupAsleep(ctx context.Context) {
	select {
	case p.manager.starts <- struct{}{}: // it takes a processor, as a start
	case <-ctx.Done():
		return
	}
	defer func() { <-p.manager.starts }()
	p.mu.Lock()
	if p.state != asleep || p.backupDue.IsZero() {
		p.mu.Unlock()
		return
	}
	release := p.holdLocked()
	cfg := configuration(p.manager.config.Host, p.name, p.journal(), p.spec)
	p.mu.Unlock()
	defer release()
	err := p.save(ctx, cfg, backup.ReasonScheduled)
	if err == nil {
		_, err = backup.Prune(cfg.Backup.Dir, backup.ReasonScheduled, cfg.Backup.Keep, time.Time{})
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.backupDue = time.Time{}
	if err != nil && ctx.Err() == nil {
		p.log().Warn("the scheduled backup of a control plane failed, trying again", "error", err)
		p.backupDue = time.Now().Add(backupRetry)
	}
}

// save makes a backup of the control plane, which has the configuration and which the caller
// holds.
func (p *plane) save(ctx context.Context, cfg *config.ServerConfiguration, reason string) error {
	if err := cfg.Complete(); err != nil {
		return err
	}
	produce := func(ctx context.Context, w io.Writer) error {
		return parts.SaveBackup(ctx, cfg, p.log(), w, backup.Options{Reason: reason})
	}
	_, err := backup.SaveDated(ctx, cfg.Backup.Dir, reason, backup.Encryption{Recipients: cfg.Backup.EncryptTo}, produce)
	return err
}

// archive makes the last backup of the control plane, which the caller holds and which is deleted
// since the time.
func (p *plane) archive(ctx context.Context, deleted time.Time) error {
	if _, err := os.Stat(p.dir()); errors.Is(err, fs.ErrNotExist) {
		return p.archived(deleted)
	}
	if err := p.save(ctx, configuration(p.manager.config.Host, p.name, p.journal(), p.currentSpec()),
		backup.ReasonArchive); err != nil {
		return fmt.Errorf("archive the control plane: %w; to delete it without a backup, set spec.deletion to Delete", err)
	}
	return nil
}

// archived returns an error if the data of a control plane without a directory is in no archive.
func (p *plane) archived(deleted time.Time) error {
	p.mu.Lock()
	made := p.made
	p.mu.Unlock()
	if !made {
		return nil // it never had data
	}
	// A former process may have archived and removed it.
	_, last, err := backup.Latest(BackupDir(p.manager.config.Host, p.name), backup.ReasonArchive)
	if err == nil && !last.Before(deleted) {
		return nil
	}
	return errors.Join(err, fmt.Errorf("archive the control plane: its directory %s is missing: put it back; "+
		"to delete it without a backup, set spec.deletion to Delete", p.dir()))
}
