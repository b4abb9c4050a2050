package controllers

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

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
