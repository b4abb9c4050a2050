package maintenance

import (
	"context"
	"fmt"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// raiseAlarm makes etcd refuse all writes other than deletions, and reports whether
// it succeeded.
func (k *Keeper) raiseAlarm(ctx context.Context) bool {
	if err := k.config.Database.SetNoSpace(ctx, true); err != nil {
		if ctx.Err() == nil {
			k.config.Log.Error("refusing writes failed", "error", err)
		}
		return false
	}
	return true
}

func (k *Keeper) diskRefusal(s usage) string {
	return fmt.Sprintf("the disk of %s has only %s left: reads and deletions are served, other writes are refused "+
		"until %s are free", k.config.Dir, datadir.Size(s.free), datadir.Size(s.resume()))
}

// resume returns the free space of the disk, in bytes, at which writes are accepted
// again.
func (s usage) resume() int64 { return s.reserve() + s.reserve()/4 }

func quotaRefusal(s usage) string {
	return fmt.Sprintf("the database is full (%s of %s): reads and deletions are served, other writes are refused; %s",
		datadir.Size(s.size), datadir.Size(s.quota), remedy)
}

// endRefusal accepts writes again if there is room, because of deletions, a larger
// quota or a larger disk. Otherwise it tries to make room.
func (k *Keeper) endRefusal(ctx context.Context, s usage) {
	if s.free < s.resume() {
		k.logRefusal(k.diskRefusal(s))
		return
	}
	if s.share() <= resumeShare {
		k.accept(ctx, s)
		return
	}
	k.logRefusal(quotaRefusal(s))
	if !k.attemptDue() {
		return
	}
	if time.Since(k.lastAttempt) > 2*maxAttemptDelay {
		k.attemptDelay = 0
	}
	k.lastAttempt, k.attemptRevision = time.Now(), k.config.Database.Revision()
	k.attemptDelay = min(max(2*k.attemptDelay, minAttemptDelay), maxAttemptDelay)
	after, err := k.makeRoom(ctx, s)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		k.config.Log.Error("making room in the database failed", "error", err)
	case after.share() <= resumeShare:
		k.accept(ctx, after)
	default:
		k.setRefusal(quotaRefusal(after))
		k.config.Log.Error("the database is still full after compaction and defragmentation",
			"size", datadir.Size(after.size), "quota", datadir.Size(after.quota), "remedy", remedy)
	}
}

// attemptDue reports whether to try to make room: the objects have changed since the
// last attempt, and the delay is over. An attempt blocks all reads and writes.
func (k *Keeper) attemptDue() bool {
	return k.lastAttempt.IsZero() || time.Since(k.lastAttempt) >= k.attemptDelay &&
		k.config.Database.Revision() != k.attemptRevision
}

// makeRoom compacts and defragments the database.
func (k *Keeper) makeRoom(ctx context.Context, s usage) (usage, error) {
	if err := k.config.Database.Compact(ctx); err != nil {
		return s, err
	}
	s, err := k.usage()
	if err != nil {
		return s, err
	}
	if !s.hasRoomForCopy() {
		return s, fmt.Errorf("%w to defragment it: the copy needs %s, and %s has %s free", ErrDisk,
			datadir.Size(s.copyNeeds()), k.config.Dir, datadir.Size(s.free))
	}
	if _, err := k.defragment(ctx, "no-space"); err != nil {
		return s, err
	}
	return k.usage()
}

// accept accepts writes again.
func (k *Keeper) accept(ctx context.Context, s usage) {
	if err := k.config.Database.SetNoSpace(ctx, false); err != nil {
		if ctx.Err() == nil {
			k.config.Log.Error("accepting writes again failed", "error", err)
		}
		return
	}
	k.setRefusal("")
	k.config.Log.Info("writes are accepted again", "size", datadir.Size(s.size), "quota", datadir.Size(s.quota),
		"disk", datadir.Size(s.free))
}

// logRefusal sets the refusal and logs it when it begins. [logging.Changes]
// does not fit: the text has sizes, which change all the time, and others read it.
func (k *Keeper) logRefusal(refusal string) {
	before := k.Refusal()
	k.setRefusal(refusal)
	if before == "" {
		k.config.Log.Error(refusal)
	}
}

func (k *Keeper) setRefusal(refusal string) {
	k.mu.Lock()
	k.refusal = refusal
	k.mu.Unlock()
	k.metrics.readOnly.Set(gaugeValue(refusal != ""))
}
