package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"regexp"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/robfig/cron/v3"
	"golang.org/x/sync/semaphore"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/reconcile"
)

// keepUpgrades is the number of backups from before upgrades that are kept.
const keepUpgrades = 3

// makerMetrics are the metrics of a maker.
type makerMetrics struct {
	time           *prometheus.GaugeVec
	size, duration prometheus.Gauge
}

// newMakerMetrics returns the metrics with a result of 0 until there is one: an alert must not
// lack a metric because no backup was made.
func newMakerMetrics() makerMetrics {
	options := func(name, help string) prometheus.GaugeOpts {
		return prometheus.GaugeOpts{Name: "kube_hyper_mini_backup_" + name, Help: help}
	}
	m := makerMetrics{
		time: prometheus.NewGaugeVec(options("last_timestamp_seconds",
			"When the last scheduled backup ended, by its result."), []string{"result"}),
		size:     prometheus.NewGauge(options("size_bytes", "Size of the last scheduled backup.")),
		duration: prometheus.NewGauge(options("duration_seconds", "How long the last scheduled backup took.")),
	}
	for _, result := range []string{"success", "failure"} {
		m.time.WithLabelValues(result).Set(0)
	}
	return m
}

// Metrics are those of this maker.
func (a *Maker) Metrics() []prometheus.Collector {
	return []prometheus.Collector{a.metrics.time, a.metrics.size, a.metrics.duration}
}

// Account is the state of the backups.
type Account struct {
	// Schedule is backup.schedule; empty for none.
	Schedule string `json:"schedule,omitempty"`
	// Next is the time of the next one; zero without a schedule.
	Next time.Time `json:"next,omitzero"`
	// Last is the time of the newest backup, scheduled or not, that was in the directory
	// at the start or has been made since. File is its path; it is empty if a client has
	// the backup.
	Last time.Time `json:"last,omitzero"`
	File string    `json:"file,omitempty"`
	// Error of the last scheduled one, if it failed.
	Error string `json:"error,omitempty"`
}

// Maker makes backups of a server, one at a time, because each needs room on the disk.
// It is safe for concurrent use.
type Maker struct {
	config  MakerConfig
	metrics makerMetrics
	turn    *semaphore.Weighted
	dirMade bool // of the goroutine of KeepSchedule, once it runs

	mu      sync.Mutex
	account Account
}

// MakerConfig configures a [Maker].
type MakerConfig struct {
	// Backup is the section of the configuration.
	Backup config.Backup
	// Prefix of the API servers' keys.
	Prefix string
	// Effective renders the configuration, and Files are those that it names.
	Effective func() ([]byte, error)
	Files     func() []config.Field
	Dir       *datadir.Dir
	// Stamp is the release that has written the data.
	Stamp datadir.Stamp
	// Snapshot streams the store with its sum at the end, and Size is that of its
	// database in bytes. The error is errors.ErrUnsupported for a store that makes no
	// snapshots.
	Snapshot func(context.Context) (io.ReadCloser, error)
	Size     func(context.Context) (int64, error)
	Log      *slog.Logger
}

// NewMaker returns a maker. [Maker.KeepSchedule] makes the scheduled backups.
func NewMaker(cfg MakerConfig) *Maker {
	return &Maker{config: cfg, metrics: newMakerMetrics(), turn: semaphore.NewWeighted(1)}
}

// TakeTurn waits until no backup is made and no key is rotated, and blocks both until
// release is called.
func (a *Maker) TakeTurn(ctx context.Context) (release func(), err error) {
	if a.turn.Acquire(ctx, 1) != nil {
		return nil, fmt.Errorf("wait for a backup or a key rotation to end: %w", context.Cause(ctx))
	}
	return func() { a.turn.Release(1) }, nil
}

// Produce makes a backup of the data for a client.
func (a *Maker) Produce(options Options) Produce {
	produce := a.produce(a.config.Stamp, options)
	return func(ctx context.Context, w io.Writer) error {
		err := produce(ctx, w)
		if err == nil && options.Reason != ReasonJournal {
			a.recordBackup(time.Now(), "")
		}
		return err
	}
}

// produce makes a backup of data with the stamp.
func (a *Maker) produce(stamp datadir.Stamp, options Options) Produce {
	return func(ctx context.Context, w io.Writer) error {
		release, err := a.TakeTurn(ctx)
		if err != nil {
			return err
		}
		release = sync.OnceFunc(release) // Spooled calls it before the backup is written to a slow client
		defer release()
		effective, err := a.config.Effective()
		if err != nil {
			return err
		}
		source := Source{
			DataDir: a.config.Dir.Path(), Stamp: stamp, Prefix: a.config.Prefix,
			Config: effective, ConfigFiles: a.config.Files(), Snapshot: a.config.Snapshot,
			Spooled: release,
		}
		if err := a.checkRoom(ctx, a.config.Dir.Path()); err != nil {
			return err
		}
		_, err = Write(ctx, w, source, options)
		return err
	}
}

// recordBackup records a backup for the account; file is empty if a client has it.
func (a *Maker) recordBackup(at time.Time, file string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if at.After(a.account.Last) || a.account.Last.After(time.Now()) { // the clock was set back
		a.account.Last, a.account.File = at, file
	}
}

// checkRoom returns an error if the disk of dir has no room for a copy of the database.
func (a *Maker) checkRoom(ctx context.Context, dir string) error {
	size, err := a.config.Size(ctx)
	if err != nil {
		return err
	}
	return datadir.CheckRoom(dir, size, a.config.Dir.Path())
}

// makeDir makes backup.dir, once: if it is missing later, its disk is not mounted any more.
func (a *Maker) makeDir() (err error) {
	if a.dirMade {
		_, err = os.Stat(a.config.Backup.Dir)
	} else {
		err = os.MkdirAll(a.config.Backup.Dir, 0o700)
	}
	if err != nil {
		return fmt.Errorf("find or make backup.dir: %w: mount its disk, or make it", err)
	}
	a.dirMade = true
	return nil
}

// save makes a backup in the configured directory and removes older ones with the same
// reason. keep and since are those of [Prune].
func (a *Maker) save(ctx context.Context, stamp datadir.Stamp, reason string, keep int,
	since time.Time) (string, error) {
	dir, encryption := a.config.Backup.Dir, Encryption{Recipients: a.config.Backup.EncryptTo}
	if err := a.makeDir(); err != nil {
		return "", err
	}
	if err := a.checkRoom(ctx, dir); err != nil {
		return "", err
	}
	path, err := SaveDated(ctx, dir, reason, encryption, a.produce(stamp, Options{Reason: reason}))
	if err != nil {
		return "", err
	}
	a.recordBackup(time.Now(), path)
	if _, err := Prune(dir, reason, keep, since); err != nil {
		a.config.Log.Warn("removing old backups failed", "error", err)
	}
	return path, nil
}

// BeforeUpgrade makes a backup if another release has written the data. The embedded
// etcd must not run: a newer one may convert the data.
func (a *Maker) BeforeUpgrade(ctx context.Context) error {
	previous := a.config.Dir.Previous
	if previous == nil || previous.FirstStart != "" || sameRelease(*previous, a.config.Stamp) ||
		!a.config.Backup.BeforeUpgrade {
		return nil // before the end of the first start nothing was served: a copy has what its origin has
	}
	// Attempts that fail before they take the directory over each make a backup. The first
	// one is of data that no newer etcd has opened.
	since, err := a.config.Dir.StampTime()
	if err != nil {
		return err
	}
	path, err := a.save(ctx, *previous, ReasonUpgrade, keepUpgrades, since)
	if errors.Is(err, errors.ErrUnsupported) {
		a.config.Log.Warn("no backup is made before the upgrade", "from", previous.Version, "to", a.config.Stamp.Version,
			"error", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("make a backup before the upgrade to %s from %s: %w; remove the cause, or set "+
			"backup.beforeUpgrade to false", a.config.Stamp.Version, previous.Version, err)
	}
	a.config.Log.Info("backup made before the upgrade", "from", previous.Version, "to", a.config.Stamp.Version,
		"file", path)
	return nil
}

// KeepSchedule makes the scheduled backups until ctx ends.
func (a *Maker) KeepSchedule(ctx context.Context) {
	// The next call reports an error.
	if path, at, err := Latest(a.config.Backup.Dir, ReasonManual, ReasonScheduled, ReasonUpgrade); err == nil {
		a.recordBackup(at, path)
	}
	if a.config.Backup.Schedule == "" {
		return
	}
	schedule, err := cron.ParseStandard(a.config.Backup.Schedule)
	if err != nil { // Validate has parsed it before
		a.config.Log.Error("parsing backup.schedule failed: no backups are made", "error", err)
		return
	}
	_ = a.makeDir() // the first backup reports an error
	_, last, err := Latest(a.config.Backup.Dir, ReasonScheduled)
	if err != nil {
		a.config.Log.Warn("finding the last backup failed: the schedule starts now", "error", err)
	}
	if last.IsZero() { // the first one may have been due while the server was down
		last, _ = a.config.Dir.StampTime() // without a stamp, it is due
	} else {
		a.metrics.time.WithLabelValues("success").Set(float64(last.Unix()))
	}
	for a.waitFor(ctx, schedule, last) {
		a.scheduled(ctx)
		last = time.Now()
	}
}

// clockCheck is the interval at which a wait reads the clock, which jumps when a machine
// was suspended or its clock was set.
const clockCheck = time.Minute

// waitFor returns true at the first time of the schedule after last; at once if that is
// past. It returns false when ctx ends.
func (a *Maker) waitFor(ctx context.Context, schedule cron.Schedule, last time.Time) bool {
	for {
		now := time.Now().Round(0) // without the monotonic clock
		if last.After(now) {
			last = now // the clock was set back
		}
		next := schedule.Next(last)
		a.mu.Lock()
		a.account.Next = next
		a.mu.Unlock()
		wait := next.Sub(now)
		if wait <= 0 {
			return true
		}
		if reconcile.Pause(ctx, min(wait, clockCheck)); ctx.Err() != nil {
			return false
		}
	}
}

// scheduled makes one backup and reports its result.
func (a *Maker) scheduled(ctx context.Context) {
	began := time.Now()
	path, err := a.save(ctx, a.config.Stamp, ReasonScheduled, a.config.Backup.Keep, time.Time{})
	if ctx.Err() != nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		a.account.Error = err.Error()
		a.metrics.time.WithLabelValues("failure").SetToCurrentTime()
		a.config.Log.Error("the scheduled backup failed", "error", err)
		return
	}
	a.account.Error = ""
	a.metrics.time.WithLabelValues("success").SetToCurrentTime()
	a.metrics.duration.Set(time.Since(began).Seconds())
	if info, err := os.Stat(path); err == nil { // otherwise it was moved
		a.metrics.size.Set(float64(info.Size()))
	}
	a.config.Log.Info("backup made", "file", path, "took", time.Since(began).Round(time.Millisecond).String())
}

// Account returns the state of the backups.
func (a *Maker) Account() Account {
	a.mu.Lock()
	defer a.mu.Unlock()
	account := a.account
	account.Schedule = a.config.Backup.Schedule
	return account
}

// Endpoint returns the handler that returns backups for POST requests.
func (a *Maker) Endpoint() http.Handler {
	if a.config.Backup.Endpoint == config.Off {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "backups through the API are disabled (backup.endpoint: off): stop the server to save one, or "+
				"set backup.schedule", http.StatusForbidden)
		})
	}
	return NewEndpoint(a.config.Backup.EncryptTo, a.Produce, a.config.Log)
}

// buildSuffix matches what `git describe` adds to a tag: the number of commits
// since, the hash, and "-dirty".
var buildSuffix = regexp.MustCompile(`(-[0-9]+-g[0-9a-f]+)?(-dirty)?$`)

// sameRelease reports whether two stamps are of builds of one release with the same
// libraries. A build without a tag is a release of its own, by its commit.
func sameRelease(a, b datadir.Stamp) bool {
	a.Version, b.Version = buildSuffix.ReplaceAllString(a.Version, ""), buildSuffix.ReplaceAllString(b.Version, "")
	return a == b
}
