package backup

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/robfig/cron/v3"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// maker returns one of the current release, for data that the release v0.9.0 has
// written. Call it in a bubble of synctest, whose clock its backups are dated by.
func maker(t *testing.T, data []byte) *Maker {
	t.Helper()
	dataDir := t.TempDir()
	previous := stamp
	previous.Version = "v0.9.0"
	hourAgo := time.Now().Add(-time.Hour)
	if err := errors.Join(datadir.WriteStampFile(dataDir, previous), os.Chtimes(filepath.Join(dataDir, "version.json"), hourAgo, hourAgo)); err != nil {
		t.Fatal(err)
	}
	dir, err := datadir.Open(dataDir, stamp)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dir.Close(); err != nil {
			t.Error(err)
		}
	})
	return NewMaker(MakerConfig{
		Backup: config.Backup{Dir: t.TempDir(), BeforeUpgrade: true}, Dir: dir, Stamp: stamp, Log: slog.New(slog.DiscardHandler),
		Effective: func() ([]byte, error) { return nil, nil }, Files: func() []config.Field { return nil },
		Snapshot: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil },
		Size:     func(context.Context) (int64, error) { return int64(len(data)), nil },
	})
}

// TestFirstBackupBeforeAnUpgradeIsKept: attempts to upgrade that fail before the release
// takes the data over leave the backup of the first one, of data that only the previous
// release has opened.
func TestFirstBackupBeforeAnUpgradeIsKept(t *testing.T) {
	data := database(t, writes)
	synctest.Test(t, func(t *testing.T) {
		a := maker(t, data)
		earlier := FileName(ReasonUpgrade, Encryption{}, time.Now().Add(-2*time.Hour)) // of the previous upgrade
		put(t, filepath.Join(a.config.Backup.Dir, earlier), "")
		var made []string
		for range keepUpgrades + 2 {
			made = append(made, FileName(ReasonUpgrade, Encryption{}, time.Now()))
			if err := a.BeforeUpgrade(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		want := slices.Delete(made, 1, len(made)-keepUpgrades)
		if got := names(t, a.config.Backup.Dir); !slices.Equal(got, want) {
			t.Errorf("the directory has %v, want %v", got, want)
		}
	})
}

// TestNoBackupOfAFirstStart: a first start that did not end, or that is of a copied directory, is no
// upgrade, also if another release began it.
func TestNoBackupOfAFirstStart(t *testing.T) {
	data := database(t, writes)
	for _, first := range []string{"unfinished", datadir.Copied} {
		a := maker(t, data)
		a.config.Dir.Previous.FirstStart = first
		if err := a.BeforeUpgrade(t.Context()); err != nil {
			t.Fatal(err)
		}
		if found := names(t, a.config.Backup.Dir); len(found) > 0 {
			t.Errorf("%s: the directory has %v", first, found)
		}
	}
}

// TestScheduleAfterTheClockWasAhead: backups that are dated in the future delay no backup,
// and the new one stays in place of them.
func TestScheduleAfterTheClockWasAhead(t *testing.T) {
	data := database(t, writes)
	synctest.Test(t, func(t *testing.T) {
		a := maker(t, data)
		a.config.Backup.Schedule, a.config.Backup.Keep = "@every 90m", 2
		var ahead []string
		for day := range 2 {
			name := FileName(ReasonScheduled, Encryption{}, time.Now().AddDate(0, 0, day+1))
			put(t, filepath.Join(a.config.Backup.Dir, name), "")
			ahead = append(ahead, name)
		}
		due := time.Now().Add(30 * time.Minute) // the directory is used since an hour
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			a.KeepSchedule(ctx)
		}()
		time.Sleep(90 * time.Minute)
		cancel()
		<-ended
		made := FileName(ReasonScheduled, Encryption{}, due)
		if got, want := names(t, a.config.Backup.Dir), []string{made, ahead[1]}; !slices.Equal(got, want) {
			t.Errorf("the directory has %v, want %v", got, want)
		}
		if account := a.Account(); !account.Last.Equal(due) || filepath.Base(account.File) != made || account.Error != "" {
			t.Errorf("the account is %+v", account)
		}
	})
}

// TestClockSetBack: a backup is made at the next time of the schedule by the new clock.
func TestClockSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := maker(t, nil)
		a.recordBackup(time.Now().AddDate(0, 0, 1), "ahead")
		began := time.Now()
		if !a.waitFor(t.Context(), cron.Every(time.Hour), began.AddDate(0, 0, 1)) {
			t.Error("the wait was ended")
		}
		if waited := time.Since(began); waited != time.Hour {
			t.Errorf("it waited %s", waited)
		}
		a.recordBackup(time.Now(), "file")
		if account := a.Account(); account.File != "file" {
			t.Errorf("the account is %+v", account)
		}
	})
}

// TestFirstBackupWasDue while the server was down: it is made at the start.
func TestFirstBackupWasDue(t *testing.T) {
	data := database(t, writes)
	synctest.Test(t, func(t *testing.T) {
		a := maker(t, data) // the directory is used since an hour
		a.config.Backup.Schedule, a.config.Backup.Keep = "@every 50m", 2
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go a.KeepSchedule(ctx)
		want := []string{FileName(ReasonScheduled, Encryption{}, time.Now())}
		time.Sleep(time.Second)
		if got := names(t, a.config.Backup.Dir); !slices.Equal(got, want) {
			t.Errorf("the directory has %v, want %v", got, want)
		}
	})
}

// TestUnmountedBackupDirectory: the directory is made at the start, and not again on the disk below
// when its own disk is not mounted any more.
func TestUnmountedBackupDirectory(t *testing.T) {
	data := database(t, writes)
	synctest.Test(t, func(t *testing.T) {
		a := maker(t, data)
		mount := filepath.Join(t.TempDir(), "mount")
		a.config.Backup.Schedule, a.config.Backup.Keep, a.config.Backup.Dir = "@every 90m", 2, filepath.Join(mount, "backups")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go a.KeepSchedule(ctx)
		synctest.Wait()
		if err := os.Rename(mount, mount+".disk"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if text := a.Account().Error; !strings.Contains(text, "mount its disk") {
			t.Errorf("the error is %q", text)
		}
		if err := os.Rename(mount+".disk", mount); err != nil {
			t.Fatalf("something was made: %v", err)
		}
		time.Sleep(90 * time.Minute)
		if text, made := a.Account().Error, names(t, a.config.Backup.Dir); text != "" || len(made) != 1 {
			t.Errorf("the error is %q, the backups are %q", text, made)
		}
	})
}
