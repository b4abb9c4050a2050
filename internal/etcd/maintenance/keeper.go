package maintenance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/util/wait"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
)

const (
	// checkInterval is the time between two checks of the sizes.
	checkInterval = time.Second
	// WarnShare is the share of the quota at which the warning about it starts. It ends
	// below warnEndShare.
	WarnShare, warnEndShare = 0.80, 0.75
	// resumeShare is the largest share of the quota at which refused writes are
	// accepted again. With a larger one they would soon be refused again.
	resumeShare = 0.95
	// startDelay is the time from the start to the first defragmentation that no
	// command requested.
	startDelay = 5 * time.Minute
	// defragmentInterval is the time between two defragmentations that no command
	// requested. Until then, new objects use the free pages.
	defragmentInterval = time.Hour
	// The delay between two attempts to make room doubles from minAttemptDelay to
	// maxAttemptDelay while they fail.
	minAttemptDelay, maxAttemptDelay = 5 * time.Second, 5 * time.Minute
	// diskPerByte is what a written byte takes of the disk: in the log, in the database, and
	// in copies of its pages.
	diskPerByte = 4
	// allWrites is more than the number of writes in flight.
	allWrites = math.MaxInt64
)

// remedy is the advice for a database that is full or nearly full.
const remedy = "delete objects, or raise etcd.embedded.quotaBackend and restart"

// Database is the database that a [Keeper] maintains. etcd.Member implements it.
type Database interface {
	// Sizes returns the size of the file, the part of it that is in use, and the
	// quota, in bytes.
	Sizes() (size, inUse, quota int64)
	// Revision is the revision of the last write.
	Revision() int64
	// NoSpace reports whether etcd's NOSPACE alarm is raised, which refuses writes.
	NoSpace() bool
	// SetNoSpace raises or clears that alarm.
	SetNoSpace(ctx context.Context, raised bool) error
	// TrimLog removes what a start does not need from the log.
	TrimLog() error
	// Compact removes the history of the objects.
	Compact(ctx context.Context) error
	// Defragment removes free pages from the file. It calls hold before the
	// database blocks reads and writes, and release after that.
	Defragment(ctx context.Context, hold func() (release func())) error
}

// Config configures a [Keeper].
type Config struct {
	Database Database
	// Dir is the directory of the database.
	Dir string
	// Threshold is the free share of the file, from 0 to 1, at which it is
	// defragmented; 0 for never.
	Threshold float64
	// MinimumSize is the size of the file, in bytes, below which it is not
	// defragmented.
	MinimumSize int64
	// MaximumInUse is the largest part in use, in bytes, with which the database is
	// defragmented at any time. A larger one is defragmented when Window returns
	// true; a nil Window is never true.
	MaximumInUse int64
	Window       func(time.Time) bool
	Log          *slog.Logger
}

// Keeper maintains one database. It is safe for concurrent use.
type Keeper struct {
	config        Config
	metrics       keeperMetrics
	checked       chan struct{} // closed after the first check
	disk          func(dir string) (free, total int64, err error)
	defragmenting atomic.Bool
	writes        *semaphore.Weighted // a write acquires 1, a defragmentation allWrites
	room          atomic.Int64        // what may be written before the free space is read again, in bytes

	mu        sync.Mutex
	nearQuota bool
	refusal   string

	// The goroutine of Run uses these.
	nextDefragment  time.Time // the earliest
	lastAttempt     time.Time // to make room
	attemptRevision int64     // the revision of lastAttempt
	attemptDelay    time.Duration
	diskErrors      logging.Changes // failures to read the free space and to trim the log
}

// New returns a keeper. Run starts its work.
func New(config Config) *Keeper {
	return &Keeper{
		config: config, metrics: newKeeperMetrics(), disk: datadir.DiskSpace, checked: make(chan struct{}),
		writes: semaphore.NewWeighted(allWrites), nextDefragment: time.Now().Add(startDelay),
	}
}

// Refusal returns why writes are refused and the remedy; empty if they are accepted,
// and for a nil Keeper.
func (k *Keeper) Refusal() string {
	if k == nil {
		return ""
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.refusal
}

// NearQuota reports whether the database takes most of its quota.
func (k *Keeper) NearQuota() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.nearQuota
}

// BeginWrite blocks while the database is defragmented, or until ctx ends. The caller then
// writes and calls end. A write that puts keys, of so many bytes, needs room: when the quota is
// reached or the disk is nearly full, it gets an error with the remedy. Deletions, of 0 bytes or
// less, do not. Those of less put keys, which etcd refuses: as long as half of the reserve is free,
// its alarm is cleared for them, until the next check.
func (k *Keeper) BeginWrite(ctx context.Context, bytes int64) (end func(), err error) {
	if !k.writes.TryAcquire(1) && k.writes.Acquire(ctx, 1) != nil {
		return nil, fmt.Errorf("wait for the defragmentation of the database: %w", context.Cause(ctx))
	}
	refusal := ""
	if size, _, quota := k.config.Database.Sizes(); bytes > 0 && size >= quota {
		refusal = quotaRefusal(usage{size: size, quota: quota})
	} else if bytes > 0 && k.room.Add(-bytes) < 0 {
		if s, err := k.usage(); err == nil && s.diskFull() { // an error is logged by the next check
			refusal = k.diskRefusal(s)
		}
	}
	if bytes < 0 && k.config.Database.NoSpace() {
		if s, err := k.usage(); err == nil && s.free > s.reserve()/2 && k.config.Database.SetNoSpace(ctx, false) != nil {
			refusal = k.Refusal()
		}
	}
	if refusal != "" {
		k.endWrite()
		return nil, errors.New(refusal)
	}
	return k.endWrite, nil
}

func (k *Keeper) endWrite() { k.writes.Release(1) }

// Defragmenting reports whether reads and writes block during a defragmentation.
func (k *Keeper) Defragmenting() bool { return k.defragmenting.Load() }

// Checked returns a channel that is closed when Run has checked the database once
// and, if writes were refused, has tried to make room.
func (k *Keeper) Checked() <-chan struct{} { return k.checked }

// Run maintains the database until ctx ends. It may be called once.
func (k *Keeper) Run(ctx context.Context) {
	checked := sync.OnceFunc(func() { close(k.checked) })
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		k.check(ctx)
		checked()
	}, checkInterval)
}

func (k *Keeper) check(ctx context.Context) {
	if err := k.config.Database.TrimLog(); err != nil && k.diskErrors.Changed("log", err.Error()) {
		k.config.Log.Warn("the log of the database is not trimmed", "error", err)
	}
	s, err := k.usage()
	if err != nil {
		if k.diskErrors.Changed(k.config.Dir, err.Error()) {
			k.config.Log.Warn("the database is not maintained: the free space of its disk is unknown", "dir", k.config.Dir,
				"error", err)
		}
		return
	}
	k.warnNearQuota(s)
	switch {
	case k.config.Database.NoSpace(), s.size >= s.quota && k.raiseAlarm(ctx):
		k.endRefusal(ctx, s)
	case s.diskFull(): // etcd ends when it cannot write its log
		k.logRefusal(k.diskRefusal(s))
		k.raiseAlarm(ctx)
	default:
		k.setRefusal("")
		if k.fragmented(s) {
			k.defragmentInBackground(ctx)
		}
	}
}

// usage has the sizes of the database and its disk, in bytes.
type usage struct {
	size, inUse, quota int64 // of the database
	free, total        int64 // of the disk
}

func (k *Keeper) usage() (usage, error) {
	var s usage
	s.size, s.inUse, s.quota = k.config.Database.Sizes()
	k.metrics.quota.Set(float64(s.quota))
	var err error
	s.free, s.total, err = k.disk(k.config.Dir)
	k.room.Store((s.free - s.reserve()) / diskPerByte)
	return s, err
}

func (s usage) reserve() int64 { return datadir.Reserve(s.total) }

func (s usage) diskFull() bool { return s.free < s.reserve() }

// hasRoomForCopy reports whether the disk has room for the copy that a
// defragmentation makes.
func (s usage) hasRoomForCopy() bool { return s.free > s.copyNeeds() }

func (s usage) copyNeeds() int64 { return s.inUse + s.reserve()/2 }

// share returns the share of the quota that the database takes.
func (s usage) share() float64 { return float64(s.size) / float64(s.quota) }

// warnNearQuota logs when the database comes near to its quota, and when it no
// longer is.
func (k *Keeper) warnNearQuota(s usage) {
	k.mu.Lock()
	before := k.nearQuota
	switch share := s.share(); {
	case share >= WarnShare:
		k.nearQuota = true
	case share < warnEndShare:
		k.nearQuota = false
	}
	now := k.nearQuota
	k.mu.Unlock()
	k.metrics.near.Set(gaugeValue(now))
	if now == before {
		return
	}
	if now {
		k.config.Log.Warn(fmt.Sprintf("the database takes %.0f %% of its quota, at which writes are refused", 100*s.share()),
			"size", datadir.Size(s.size), "inUse", datadir.Size(s.inUse), "quota", datadir.Size(s.quota), "remedy", remedy)
		return
	}
	k.config.Log.Info("the database is no longer near its quota", "size", datadir.Size(s.size),
		"quota", datadir.Size(s.quota))
}

// fragmented reports whether to defragment now, which blocks all reads and writes.
func (k *Keeper) fragmented(s usage) bool {
	return k.config.Threshold > 0 && s.size >= k.config.MinimumSize && s.hasRoomForCopy() &&
		time.Now().After(k.nextDefragment) && k.allowed(s, time.Now()) &&
		float64(s.size-s.inUse) >= k.config.Threshold*float64(s.size)
}

// allowed reports whether a defragmentation of this size may block requests at the
// time now.
func (k *Keeper) allowed(s usage, now time.Time) bool {
	return s.inUse <= k.config.MaximumInUse || k.config.Window != nil && k.config.Window(now)
}

// defragmentInBackground defragments without a command.
func (k *Keeper) defragmentInBackground(ctx context.Context) {
	k.nextDefragment = time.Now().Add(defragmentInterval)
	if _, err := k.defragment(ctx, "fragmentation"); err != nil && ctx.Err() == nil {
		k.config.Log.Warn("defragmenting the database failed", "error", err)
	}
}

// Defragmented is the result of a defragmentation.
type Defragmented struct {
	Before  int64   `json:"beforeBytes"`
	After   int64   `json:"afterBytes"`
	Seconds float64 `json:"seconds"`
}

// ErrDisk means that the disk has no room for the copy that a defragmentation makes.
var ErrDisk = errors.New("not enough room on the disk")

// Defragment defragments the database for a command. All reads and writes block until
// it is done.
func (k *Keeper) Defragment(ctx context.Context) (Defragmented, error) {
	s, err := k.usage()
	if err != nil {
		return Defragmented{}, fmt.Errorf("read the free space of %s: %w", k.config.Dir, err)
	}
	if !s.hasRoomForCopy() {
		return Defragmented{}, fmt.Errorf("%w: the copy needs %s, and %s has %s free", ErrDisk,
			datadir.Size(s.copyNeeds()), k.config.Dir, datadir.Size(s.free))
	}
	return k.defragment(ctx, "command")
}

func (k *Keeper) defragment(ctx context.Context, cause string) (Defragmented, error) {
	var d Defragmented
	var began time.Time
	err := k.config.Database.Defragment(ctx, func() (release func()) {
		// It waits for the writes in flight, and later ones wait for it.
		_ = k.writes.Acquire(context.Background(), allWrites) // fails with its context only
		k.defragmenting.Store(true)
		d.Before, _, _ = k.config.Database.Sizes()
		began = time.Now()
		return func() {
			k.defragmenting.Store(false)
			k.writes.Release(allWrites)
		}
	})
	if err != nil {
		k.metrics.defragmentations.WithLabelValues(cause, "failure").Inc()
		return d, err
	}
	took := time.Since(began)
	d.Seconds = took.Seconds()
	k.metrics.defragmentSeconds.Set(d.Seconds)
	d.After, _, _ = k.config.Database.Sizes()
	k.metrics.defragmentations.WithLabelValues(cause, "success").Inc()
	k.config.Log.Info("database defragmented", "before", datadir.Size(d.Before), "after", datadir.Size(d.After),
		"took", took.Round(time.Millisecond).String(), "cause", cause)
	return d, nil
}
