package identity

import (
	"context"
	"crypto"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/pki"
)

// TestRetiredTokenKeyWithAnUnreadableFile: it is not trusted any more, the keys that were read
// before are, and what failed is repeated.
func TestRetiredTokenKeyWithAnUnreadableFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		others := pki.New(t.TempDir(), pki.Names{})
		store := pki.New(filepath.Join(t.TempDir(), "pki"), pki.Names{})
		for _, s := range []*pki.Store{others, store} {
			if _, err := s.Create(); err != nil {
				t.Fatal(err)
			}
		}
		file := others.Key(pki.ServiceAccount)
		var verify []crypto.PublicKey
		i := Open(Config{TokenKeyFiles: []string{file}, Log: slog.New(slog.DiscardHandler),
			UseTokenKeys: func(_ crypto.Signer, keys []crypto.PublicKey) error {
				verify = keys
				return nil
			}}, store)
		steps := func(errs ...error) {
			t.Helper()
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
		}
		_, prepareErr := store.Prepare("service-account")
		_, switchErr := store.Switch("service-account", time.Hour)
		steps(prepareErr, switchErr, i.Follow())
		if len(verify) != 3 {
			t.Fatalf("in the overlap, %d keys are trusted", len(verify))
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			store.Renew(ctx, i.renewed)
		}()
		defer func() { cancel(); <-ended }()
		synctest.Wait()
		steps(os.Rename(file, file+".away"))
		time.Sleep(time.Hour + time.Second)
		synctest.Wait()
		if len(verify) != 2 {
			t.Errorf("after the overlap, %d keys are trusted", len(verify))
		}
		more := pki.New(t.TempDir(), pki.Names{})
		_, err := more.Create()
		two, readErr := os.ReadFile(file + ".away")
		third, moreErr := os.ReadFile(more.Key(pki.ServiceAccount))
		steps(err, readErr, moreErr, os.WriteFile(file, append(two, third...), 0o600))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if len(verify) != 3 {
			t.Errorf("when the file can be read again, %d keys are trusted", len(verify))
		}
	})
}
