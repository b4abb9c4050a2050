package controllers

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/keyutil"
)

// TestRotationRestartsTheControllers: once a new key can be read. A change of another file
// does not.
func TestRotationRestartsTheControllers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		changed := make(chan struct{})
		files := Files{
			ServerCA: filepath.Join(t.TempDir(), "ca"), ServiceAccountKey: filepath.Join(t.TempDir(), "key"),
			Changed: func() <-chan struct{} { return changed },
		}
		write := func(path string, data []byte) {
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		writeKey := func() {
			key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			data, err := keyutil.MarshalPrivateKeyToPEM(key)
			if err != nil {
				t.Fatal(err)
			}
			write(files.ServiceAccountKey, data)
		}
		announce := func() {
			before := changed
			changed = make(chan struct{})
			close(before)
			synctest.Wait()
		}
		write(files.ServerCA, []byte("authority"))
		writeKey()
		ctx, restart := context.WithCancel(t.Context())
		env := &environment{config: Config{Files: files, Log: slog.New(slog.DiscardHandler)}, restart: restart, filesChanged: changed}
		var err error
		if env.filesContent, err = files.content(); err != nil {
			t.Fatal(err)
		}
		go env.restartAfterRotation(ctx)
		announce()
		write(files.ServiceAccountKey, []byte("half of a k"))
		announce()
		if ctx.Err() != nil {
			t.Error("the controllers start again without new files that they can use")
		}
		writeKey()
		time.Sleep(2 * filesRetry)
		synctest.Wait()
		if ctx.Err() == nil {
			t.Error("the controllers do not start again")
		}
	})
}

// TestMovedType: the controllers start again when another server serves a type that they
// monitor.
func TestMovedType(t *testing.T) {
	var isRemote atomic.Bool
	remote := func(schema.GroupVersion) bool { return isRemote.Load() }
	set := testInformers(t)
	set.remote = remote
	all := newDiscoverer(newServer(widgets.GroupVersion().String()), remote, slog.New(slog.DiscardHandler))
	for _, before := range []bool{false, true} {
		isRemote.Store(before)
		query(t, all)
		clear(set.watched)
		addMonitor(t, &monitors{set: set}, widgets)
		ctx, restart := context.WithCancel(t.Context())
		env := &environment{types: all, monitorInformers: set, restart: restart, config: Config{Log: all.log}}
		isRemote.Store(!before)
		query(t, all)
		env.restartAfterMove(ctx) // hangs if it does not restart
	}
}
