package planes

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/controlplane"
)

// maxSleep is the longest time that a control plane sleeps. A start renews certificates, of
// which a third of the lifetime, four months, is left, and removes expired tokens and events.
const maxSleep = 30 * 24 * time.Hour

// upkeep puts control planes to sleep that were not used for their time, wakes those that have
// slept too long, makes the backups of others, and has those deleted whose lifetime is over,
// until ctx ends.
func (m *Manager) upkeep(ctx context.Context, remove func(ctx context.Context, name string) error) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, p := range m.list() {
			m.keep(ctx, p, remove)
		}
		if m.exceedsLimits() {
			m.begin(func(ctx context.Context) { m.sleepLeastRecentlyUsed(ctx) })
		}
	}
}

// keep does what is due for one control plane.
func (m *Manager) keep(ctx context.Context, p *plane, remove func(ctx context.Context, name string) error) {
	used, idle := p.idleSince()
	spec := p.currentSpec()
	if after := durationOf(spec.SleepAfter, m.config.Host.Planes.SleepAfter.Duration); idle && time.Since(used) >= after {
		m.begin(func(ctx context.Context) { p.sleep(ctx, after) })
	}
	if due := p.dueBackup(); !due.IsZero() && time.Now().After(due) {
		m.begin(p.backupAsleep)
	}
	if p.hasSleptLong() {
		m.begin(p.wakeAsleep)
	}
	if life := durationOf(spec.Lifetime, 0); life > 0 && time.Since(p.used()) >= life {
		if err := remove(ctx, p.name); err != nil {
			m.config.Log.Warn("deleting a control plane at the end of its lifetime failed; it is tried again",
				"plane", p.name, "error", err)
		}
	}
}

// historyKept is the time for which the history of the objects is kept at least, as upstream does.
const historyKept = 5 * time.Minute

// compactTimeout bounds what a stop waits for it.
const compactTimeout = 10 * time.Second

// compact removes old history before a stop: the server itself does so only if it runs for ten
// minutes. Watches that are parked continue after a later revision.
func (p *plane) compact(server *controlplane.ControlPlane) {
	now := time.Now()
	if p.mark.revision > 0 && now.Sub(p.mark.at) < historyKept {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), compactTimeout)
	defer cancel()
	current, err := server.Compact(ctx, p.mark.revision)
	if err != nil { // its data may be other ones than at the mark
		p.manager.config.Log.Debug("the history of a control plane is not compacted", "plane", p.name, "error", err)
	}
	p.mark.revision, p.mark.at = current, now
}

// hasSleptLong reports whether the control plane sleeps since maxSleep.
func (p *plane) hasSleptLong() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != asleep || !p.made || time.Since(p.lastUsed) < maxSleep {
		return false
	}
	if p.stopped.IsZero() { // since the host has started
		p.stopped = time.Now()
		if closed, err := p.closed(); err == nil {
			p.stopped = closed
		}
	}
	return time.Since(p.stopped) >= maxSleep
}

// wakeAsleep starts the control plane without a request, which is no use of it.
func (p *plane) wakeAsleep(ctx context.Context) {
	p.mu.Lock()
	if p.state != asleep {
		p.mu.Unlock()
		return
	}
	p.stopped = time.Now().Add(time.Hour - maxSleep) // if it does not start, the next try
	p.set(waking)
	p.mu.Unlock()
	p.wake(ctx)
}

// exceedsLimits reports whether the process has more memory or open files than it may have, and
// a control plane in memory.
func (m *Manager) exceedsLimits() bool {
	m.mu.Lock()
	awake := m.awake
	m.mu.Unlock()
	limits := m.config.Host.Planes
	switch {
	case awake == 0:
		return false
	case limits.Memory.Value() > 0 && memoryInUse() > limits.Memory.Value():
		return true
	case limits.Descriptors > 0:
		files, err := os.ReadDir("/dev/fd")
		return err == nil && len(files) > limits.Descriptors
	}
	return false
}

// memoryInUse returns the memory of the Go runtime that is not returned to the system, in bytes.
func memoryInUse() int64 {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	return int64(samples[0].Value.Uint64() - samples[1].Value.Uint64())
}

// sleepLeastRecentlyUsed puts the idle control plane to sleep that was used longest ago. It
// reports whether it has.
func (m *Manager) sleepLeastRecentlyUsed(ctx context.Context) bool {
	p := m.leastRecentlyUsed()
	if p == nil || !p.sleep(ctx, 0) {
		return false
	}
	if m.config.Host.Planes.Memory.Value() > 0 {
		debug.FreeOSMemory() // the next look at the limit sees it
	}
	return true
}
