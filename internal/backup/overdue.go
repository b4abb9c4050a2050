package backup

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics"
)

// minOverdue is the least time after which a scheduled backup is overdue.
const minOverdue = time.Minute

var backupOverdue = metrics.NewGauge(&metrics.GaugeOpts{
	Name: "kube_hyper_mini_backup_overdue", StabilityLevel: metrics.ALPHA,
	Help: "1 while a scheduled backup runs although the next one is due.",
})

// watchOverdue calls save. It reports once if save has not ended after limit.
func (a *Maker) watchOverdue(ctx context.Context, limit time.Duration, record Record, save func()) {
	began := time.Now()
	ended := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		select {
		case <-ended:
		case <-ctx.Done():
		case <-timer.C:
			a.overdue(began, record)
		}
	})
	save()
	close(ended)
	watching.Wait()
	backupOverdue.Set(0)
}

func (a *Maker) overdue(began time.Time, record Record) {
	const text = "the scheduled backup is overdue: it has not ended; check the disk of the backups, and other backups and key rotations for which it may wait"
	backupOverdue.Set(1)
	a.mu.Lock()
	a.account.Error = text + ", since " + began.Format(time.DateTime)
	a.mu.Unlock()
	a.config.Log.Warn(text, "began", began, "dir", a.config.Backup.Dir)
	record(corev1.EventTypeWarning, "BackupOverdue", "%s", text)
}
