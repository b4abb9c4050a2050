package planes

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"kube-hyper-mini.io/kube-hyper-mini/controlplane"
)

// upkeep puts control planes to sleep that were not used for their time, makes the backups of
// others, and has those deleted whose lifetime is over, each second until ctx ends.
func (m *Manager) upkeep(ctx context.Context, remove func(ctx context.Context, p *plane) error) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		for _, p := range m.list() {
			m.keep(p, remove)
		}
		if m.exceedsLimits() {
			m.begin(func(ctx context.Context) { m.sleepLeastRecentlyUsed(ctx, false) })
		}
	}, time.Second)
}

// keep does what is due for one control plane.
func (m *Manager) keep(p *plane, remove func(ctx context.Context, p *plane) error) {
	p.mu.Lock()
	spec, state, inUse := p.spec, p.state, p.requests > 0 || p.state == waking // for a request
	outdated := p.outdated
	busy, used, due := p.lastBusy(), p.lastUsed, p.backupDue
	p.mu.Unlock()
	after := durationOf(spec.SleepAfter, m.config.Host.Planes.SleepAfter.Duration)
	if state == awake && outdated {
		m.begin(p.restart)
	} else if state == awake && !inUse && time.Since(busy) >= after {
		m.begin(func(ctx context.Context) { p.sleep(ctx, after) })
	}
	if state == asleep && !due.IsZero() && time.Now().After(due) {
		m.begin(p.backupAsleep)
	}
	life := durationOf(spec.Lifetime, 0)
	if life <= 0 || inUse || time.Since(used) < life || !p.expiring.CompareAndSwap(false, true) {
		return
	}
	m.begin(func(ctx context.Context) { // it may wait for webhooks of the host
		defer p.expiring.Store(false)
		if err := remove(ctx, p); err != nil && ctx.Err() == nil {
			m.config.Log.Warn("deleting a control plane at the end of its lifetime failed, trying again",
				"plane", p.name, "error", err)
		}
	})
}

// restartPatience bounds what a restart waits for requests in flight, and for watches without all events.
const restartPatience = 15 * time.Second

// restart stops the control plane: the next request starts it. Requests wait, so that it has none, and
// parks its watches, also if it is always in use.
func (p *plane) restart(ctx context.Context) {
	p.mu.Lock()
	if p.settling || p.state != awake {
		p.mu.Unlock()
		return
	}
	p.turn(waking)
	p.mu.Unlock()
	revision := "" // its watches end
	_ = wait.PollUntilContextTimeout(ctx, madePoll, restartPatience, true, func(ctx context.Context) (bool, error) {
		p.mu.Lock()
		busy := p.requests > 0
		p.mu.Unlock()
		if busy {
			return false, nil
		}
		settled, quiet := p.settle(ctx)
		if quiet {
			revision = settled
		}
		return quiet, nil
	})
	p.mu.Lock()
	p.revision = revision
	p.halt()
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
	if err != nil { // the directory may have been replaced since the mark
		p.manager.config.Log.Debug("the history of a control plane is not compacted", "plane", p.name, "error", err)
	}
	p.mark.revision, p.mark.at = current, now
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

// sleepLeastRecentlyUsed puts the idle control plane to sleep that was used longest ago. It reports
// whether it has. If it insists, requests that come meanwhile wait.
func (m *Manager) sleepLeastRecentlyUsed(ctx context.Context, insist bool) bool {
	p := m.leastRecentlyUsed()
	if p == nil {
		return false
	}
	sleeps := p.sleep(ctx, 0)
	if _, idle := p.idleSince(); idle && insist && !sleeps { // it was used while its watches settled
		p.restart(ctx)
		sleeps = !p.is(awake)
	}
	if sleeps && m.config.Host.Planes.Memory.Value() > 0 {
		debug.FreeOSMemory() // the next look at the limit sees it
	}
	return sleeps
}
