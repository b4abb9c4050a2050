package maintenance

import (
	"context"
	"fmt"
	"time"

	"github.com/dustin/go-humanize"
	corev1 "k8s.io/api/core/v1"
)

// refuse stops writes before etcd meets a full disk, at which it would give
// up.
func (k *Keeper) refuse(ctx context.Context, s situation) {
	k.sayRefused(k.diskRefusal(s))
	k.alarm(ctx)
}

// alarm makes etcd itself refuse what is not a deletion, whoever asks, and
// says whether it does.
func (k *Keeper) alarm(ctx context.Context) bool {
	if err := k.config.Database.SetNoSpace(ctx, true); err != nil {
		if ctx.Err() == nil {
			k.config.Log.Error("writes cannot be stopped", "error", err)
		}
		return false
	}
	return true
}

func (k *Keeper) diskRefusal(s situation) string {
	return fmt.Sprintf("the disk of %s has only %s left: the server reads and deletes, and refuses other writes until %s are free",
		k.config.Dir, size(s.free), size(s.resume()))
}

// resume is how much must be free when writes begin again.
func (s situation) resume() int64 { return s.reserve() + s.reserve()/4 }

func quotaRefusal(s situation) string {
	return fmt.Sprintf("the database is full (%s of %s): the server reads and deletes, and refuses other writes; %s",
		size(s.size), size(s.quota), remedy)
}

// relieve does what can be done about refused writes, and ends the refusal when
// it has helped, or when something else has: a larger quota, a larger disk.
func (k *Keeper) relieve(ctx context.Context, s situation) {
	if s.free < s.resume() {
		k.sayRefused(k.diskRefusal(s))
		return
	}
	if s.share() <= roomy {
		k.accept(ctx, s)
		return
	}
	k.sayRefused(quotaRefusal(s))
	if !k.due() {
		return
	}
	if time.Since(k.tried) > 2*lastPatience {
		k.tryPatience = 0
	}
	k.tried, k.triedAt = time.Now(), k.config.Database.Revision()
	k.tryPatience = min(max(2*k.tryPatience, firstPatience), lastPatience)
	after, err := k.makeRoom(ctx, s)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		k.config.Log.Error("no room could be made in the database", "error", err)
	case after.share() <= roomy:
		k.accept(ctx, after)
	default:
		k.setRefusal(quotaRefusal(after))
		k.config.Log.Error("the database is still full without its history and its free pages", "size", size(after.size), "quota", size(after.quota), "remedy", remedy)
	}
}

// due says whether to try (again): something was written or deleted since, and
// the last try, which everybody has waited for, is some time ago.
func (k *Keeper) due() bool {
	return k.tried.IsZero() || time.Since(k.tried) >= k.tryPatience && k.config.Database.Revision() != k.triedAt
}

// makeRoom gives up history and free pages.
func (k *Keeper) makeRoom(ctx context.Context, s situation) (situation, error) {
	if err := k.config.Database.Compact(ctx); err != nil {
		return s, err
	}
	s, err := k.situation()
	if err != nil {
		return s, err
	}
	if !s.copyable() {
		return s, fmt.Errorf("%w to defragment it: a copy of the %s in use is made, and %s has %s left", ErrDisk, size(s.inUse), k.config.Dir, size(s.free))
	}
	if _, err := k.defragment(ctx, "no-space"); err != nil {
		return s, err
	}
	return k.situation()
}

// accept takes writes again.
func (k *Keeper) accept(ctx context.Context, s situation) {
	if err := k.config.Database.SetNoSpace(ctx, false); err != nil {
		if ctx.Err() == nil {
			k.config.Log.Error("writes stay refused", "error", err)
		}
		return
	}
	k.setRefusal("")
	k.config.Log.Info("writes are taken again", "size", size(s.size), "quota", size(s.quota), "disk", size(s.free))
	k.tell(corev1.EventTypeNormal, "DatabaseWritable", "Writes were refused and are taken again; the database has %s of %s, its disk has %s left", size(s.size), size(s.quota), size(s.free))
	if k.NearQuota() {
		k.tellNear(s) // the first time there may have been no room for it
	}
}

// sayRefused says so once.
func (k *Keeper) sayRefused(refusal string) {
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
	readOnlyGauge.Set(number(refusal != ""))
}

// size writes bytes for people.
func size(n int64) string { return humanize.IBytes(uint64(max(n, 0))) }
