package controllers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"k8s.io/client-go/util/keyutil"
)

// errRestart ends the controllers, which start again.
var errRestart = errors.New("the controllers start again")

// filesRetry is the time to the next attempt to read files after one has failed.
const filesRetry = time.Minute

// restartAfterMove starts the controllers again when a monitored type has moved to an
// aggregated API server, or back: a watch of the other server goes on.
func (e *environment) restartAfterMove(ctx context.Context) {
	for ctx.Err() == nil {
		_, changed, _ := e.types.snapshot()
		if moved := e.monitorInformers.moved(); !moved.Empty() {
			e.config.Log.Info("another API server serves a type: the controllers start again", "type",
				moved.GroupResource().String())
			e.restart()
		}
		select {
		case <-ctx.Done():
		case <-changed:
		}
	}
}

// restartAfterRotation starts the controllers again when the content of files has changed
// that some of them read at their start only. While the files cannot be used, the controllers
// continue with what they have.
func (e *environment) restartAfterRotation(ctx context.Context) {
	var retry <-chan time.Time
	for changed := e.filesChanged; ; {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			changed = e.config.Files.changed()
		case <-retry:
		}
		retry = nil
		now, err := e.config.Files.content()
		switch {
		case err != nil:
			e.config.Log.Error("reading new certificates and keys failed, trying again in a minute: the controllers "+
				"continue with the old ones", "error", err)
			retry = time.After(filesRetry)
		case now != e.filesContent:
			e.config.Log.Info("certificates or keys were replaced: the controllers start again")
			e.restart()
			return
		}
	}
}

// content returns what the controllers read once. It checks the key.
func (f Files) content() (string, error) {
	rootCA, err := os.ReadFile(f.ServerCA)
	if err != nil {
		return "", fmt.Errorf("read the CA to publish: %w", err)
	}
	key, err := os.ReadFile(f.ServiceAccountKey)
	if err == nil {
		_, err = keyutil.ParsePrivateKeyPEM(key)
	}
	if err != nil {
		return "", fmt.Errorf("read the service account key %s: %w", f.ServiceAccountKey, err)
	}
	return string(rootCA) + string(key), nil
}
