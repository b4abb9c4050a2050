package maintenance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

const (
	// lookInterval is between two looks at the sizes, which cost nothing.
	lookInterval = time.Second
	// nearQuota of the quota warns; below calmQuota the warning is over.
	nearQuota, calmQuota = 0.80, 0.75
	// roomy is how much of the quota may be taken when writes begin again.
	// Closer to the quota they would soon be refused again.
	roomy = 0.95
	// startPause is how long a new process does not defragment.
	startPause = 5 * time.Minute
	// pause is between two defragmentations that nobody has asked for: what is
	// free in the database is not lost, it is used again.
	pause = time.Hour
	// patience with what has not helped doubles from the one to the other.
	firstPatience, lastPatience = 5 * time.Second, 5 * time.Minute
)

// remedy for a database that is full, or soon will be.
const remedy = "delete objects, or raise etcd.embedded.quotaBackend and restart"

// Database is what is kept; an etcd member is one.
type Database interface {
	// Sizes in bytes of the file, of what is in use in it, and of the quota.
	Sizes() (size, inUse, quota int64)
	Revision() int64
	// NoSpace says whether writes are refused; SetNoSpace changes that.
	NoSpace() bool
	SetNoSpace(ctx context.Context, raised bool) error
	// Compact gives up the history; Defragment what is not in use, between a
	// hold and its release, during which nothing can be read or written.
	Compact(ctx context.Context) error
	Defragment(ctx context.Context, hold func() (release func())) error
}

// Config of a keeper.
type Config struct {
	Database Database
	// Dir is where the database lies.
	Dir string
	// Threshold is the part of the file that is not in use, from 0 to 1, above
	// which it is defragmented; 0 never. MinimumSize of the file in bytes,
	// below which it is not.
	Threshold   float64
	MinimumSize int64
	// MaximumInUse is how many bytes may be in use for that at any time; with
	// more it waits until Window, which may be nil for never, is true.
	MaximumInUse int64
	Window       func(time.Time) bool
	Log          *slog.Logger
}

// Record tells the users of the API of an event.
type Record func(kind, reason, format string, args ...any)

// Keeper looks after one database. It is safe for concurrent use.
type Keeper struct {
	config        Config
	looked        chan struct{} // closed after the first look
	disk          func(dir string) (free, total int64, err error)
	defragmenting atomic.Bool
	writes        sync.RWMutex // held for reading by writes, by a defragmentation for writing

	mu      sync.Mutex
	record  Record // nil when nobody can be told
	near    bool
	refusal string

	// Of the goroutine that looks.
	rested       time.Time // no defragmentation before
	tried        time.Time // the last try to help
	triedAt      int64     // its revision
	tryPatience  time.Duration
	diskReported bool
}

// New returns a keeper that does nothing yet.
func New(config Config) *Keeper {
	register()
	return &Keeper{config: config, disk: datadir.DiskSpace, looked: make(chan struct{}), rested: time.Now().Add(startPause)}
}

// Refusal is why writes are refused and what to do, or empty.
func (k *Keeper) Refusal() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.refusal
}

// NearQuota says whether the database fills most of its quota.
func (k *Keeper) NearQuota() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.near
}

// Enter waits while the database is defragmented. The caller writes then, and
// leaves. Puts, which add something, are refused with an error that says what
// to do when the quota is reached; deletions are not.
func (k *Keeper) Enter(puts bool) (leave func(), err error) {
	k.writes.RLock()
	if size, _, quota := k.config.Database.Sizes(); puts && size >= quota {
		k.writes.RUnlock()
		return nil, errors.New(quotaRefusal(situation{size: size, quota: quota}))
	}
	return k.writes.RUnlock, nil
}

// Defragmenting says whether reads and writes wait for a defragmentation.
func (k *Keeper) Defragmenting() bool { return k.defragmenting.Load() }

// Tell makes the keeper record what happens from now on.
func (k *Keeper) Tell(record Record) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.record = record
}

// Looked is closed when Run has looked once, and has done what could be done
// about writes that are refused.
func (k *Keeper) Looked() <-chan struct{} { return k.looked }

// Run looks after the database until ctx ends. It may be called once.
func (k *Keeper) Run(ctx context.Context) {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for first := true; ; first = false {
		k.look(ctx)
		if first {
			close(k.looked)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// tell records an event if there is somebody to tell and room for it.
func (k *Keeper) tell(kind, reason, format string, args ...any) {
	k.mu.Lock()
	record := k.record
	k.mu.Unlock()
	size, _, quota := k.config.Database.Sizes()
	if record != nil && size < quota && !k.config.Database.NoSpace() {
		record(kind, reason, format, args...)
	}
}

func (k *Keeper) look(ctx context.Context) {
	s, err := k.situation()
	if err != nil {
		k.reportDisk(err)
		return
	}
	k.watchQuota(s)
	switch {
	case k.config.Database.NoSpace(), s.size >= s.quota && k.alarm(ctx):
		k.relieve(ctx, s)
	case s.diskFull():
		k.refuse(ctx, s)
	default:
		k.setRefusal("")
		if k.fragmented(s) {
			k.rest(ctx)
		}
	}
}

// situation is what there is to decide on, in bytes.
type situation struct {
	size, inUse, quota int64
	free, total        int64 // of the disk
}

func (k *Keeper) situation() (situation, error) {
	var s situation
	s.size, s.inUse, s.quota = k.config.Database.Sizes()
	var err error
	s.free, s.total, err = k.disk(k.config.Dir)
	return s, err
}

func (s situation) reserve() int64 { return datadir.Reserve(s.total) }

func (s situation) diskFull() bool { return s.free < s.reserve() }

// copyable says whether the disk has room for the copy that a defragmentation
// makes.
func (s situation) copyable() bool { return s.free > s.inUse+s.reserve()/2 }

// share of the quota that is taken.
func (s situation) share() float64 { return float64(s.size) / float64(s.quota) }

// reportDisk warns once that the disk cannot be asked.
func (k *Keeper) reportDisk(err error) {
	if !k.diskReported {
		k.config.Log.Warn("the database is not looked after: its disk does not say how full it is", "dir", k.config.Dir, "error", err)
	}
	k.diskReported = true
}

// watchQuota warns when the quota comes near.
func (k *Keeper) watchQuota(s situation) {
	k.mu.Lock()
	before := k.near
	switch share := s.share(); {
	case share >= nearQuota:
		k.near = true
	case share < calmQuota:
		k.near = false
	}
	now := k.near
	k.mu.Unlock()
	nearGauge.Set(number(now))
	if now == before {
		return
	}
	if now {
		k.config.Log.Warn(fmt.Sprintf("the database takes %.0f %% of its quota, at which writes are refused", 100*s.share()),
			"size", size(s.size), "inUse", size(s.inUse), "quota", size(s.quota), "remedy", remedy)
		k.tellNear(s)
		return
	}
	k.config.Log.Info("the database is well below its quota again", "size", size(s.size), "quota", size(s.quota))
	k.tell(corev1.EventTypeNormal, "DatabaseBelowQuota", "The database takes %s of its quota of %s", size(s.size), size(s.quota))
}

func (k *Keeper) tellNear(s situation) {
	k.tell(corev1.EventTypeWarning, "DatabaseNearQuota", "The database takes %s of its quota of %s, at which writes are refused: %s", size(s.size), size(s.quota), remedy)
}

// fragmented says whether a defragmentation is worth that everybody waits.
func (k *Keeper) fragmented(s situation) bool {
	return k.config.Threshold > 0 && s.size >= k.config.MinimumSize && s.copyable() && time.Now().After(k.rested) && k.allowed(s, time.Now()) &&
		float64(s.size-s.inUse) >= k.config.Threshold*float64(s.size)
}

// allowed says whether users may wait now for as long as it takes.
func (k *Keeper) allowed(s situation, now time.Time) bool {
	return s.inUse <= k.config.MaximumInUse || k.config.Window != nil && k.config.Window(now)
}

// rest defragments because it is time to.
func (k *Keeper) rest(ctx context.Context) {
	k.rested = time.Now().Add(pause)
	if _, err := k.defragment(ctx, "fragmentation"); err != nil && ctx.Err() == nil {
		k.config.Log.Warn("the database stays fragmented", "error", err)
	}
}

// Defragmented is what a defragmentation has done, in bytes.
type Defragmented struct {
	Before  int64   `json:"beforeBytes"`
	After   int64   `json:"afterBytes"`
	Seconds float64 `json:"seconds"`
}

// ErrDisk means that the disk has no room for a defragmentation's copy.
var ErrDisk = errors.New("not enough room on the disk")

// Defragment defragments because somebody has asked for it. Reads and writes
// of everybody wait meanwhile.
func (k *Keeper) Defragment(ctx context.Context) (Defragmented, error) {
	s, err := k.situation()
	if err != nil {
		return Defragmented{}, fmt.Errorf("ask how much room there is in %s: %w", k.config.Dir, err)
	}
	if !s.copyable() {
		return Defragmented{}, fmt.Errorf("%w: a copy of the %s in use is made, and %s has %s left", ErrDisk, size(s.inUse), k.config.Dir, size(s.free))
	}
	return k.defragment(ctx, "command")
}

func (k *Keeper) defragment(ctx context.Context, cause string) (Defragmented, error) {
	var d Defragmented
	var began time.Time
	err := k.config.Database.Defragment(ctx, func() (release func()) {
		k.writes.Lock()
		k.defragmenting.Store(true)
		d.Before, _, _ = k.config.Database.Sizes()
		began = time.Now()
		return func() {
			k.defragmenting.Store(false)
			k.writes.Unlock()
		}
	})
	if err != nil {
		defragmentations.WithLabelValues(cause, "failure").Inc()
		return d, err
	}
	took := time.Since(began)
	d.Seconds = took.Seconds()
	defragmentSeconds.Set(d.Seconds)
	d.After, _, _ = k.config.Database.Sizes()
	defragmentations.WithLabelValues(cause, "success").Inc()
	k.config.Log.Info("database defragmented", "before", size(d.Before), "after", size(d.After), "took", took.Round(time.Millisecond).String(), "cause", cause)
	k.tell(corev1.EventTypeNormal, "DatabaseDefragmented", "Defragmented the database from %s to %s in %s", size(d.Before), size(d.After), took.Round(time.Millisecond))
	return d, nil
}
