package journal

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"filippo.io/age"
	"go.uber.org/zap"

	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// TestChangedRecipients: a chain for the new recipients begins at once, so that their identity
// alone restores it. A chain of a former release, whose recipients are not known, continues.
func TestChangedRecipients(t *testing.T) {
	t.Parallel()
	store, f := begun(t)
	f.caughtUp()
	f.stopWriter()
	for number := 2; number < 4; number++ {
		identity, err := age.GenerateX25519Identity()
		file := filepath.Join(t.TempDir(), "identity")
		if err = errors.Join(err, os.WriteFile(file, []byte(identity.String()), 0o600)); err != nil {
			t.Fatal(err)
		}
		f.config.Encryption.Recipients = []string{identity.Recipient().String()}
		for range 2 { // the second process continues the chain
			f.startWriter()
			f.history(1)
			f.caughtUp()
			f.stopWriter()
		}
		chains := hasChains(t, store, number)
		wants(t, errors.New(chains[number-1].Claim.Reason), "backup.encryptTo was changed")
		_, outcome, err := Restore(t.Context(), RestoreConfig{
			Into:  backup.RestoreConfig{DataDir: filepath.Join(t.TempDir(), "data"), Stamp: datadir.CurrentStamp()},
			Store: store, Key: backup.Key{IdentityFile: file}, Prefix: "/registry", Say: t.Logf, Log: zap.NewNop(),
		})
		if err != nil || outcome.Broken != nil || outcome.Revision != revision(t, f) {
			t.Errorf("restored %+v, %v, want revision %d", outcome, err, revision(t, f))
		}
	}
	var st state
	if _, err := datadir.ReadJSON(f.writer.stateFile(), &st); err != nil {
		t.Fatal(err)
	}
	st.Recipients = nil
	if err := datadir.WriteJSON(f.writer.stateFile(), st); err != nil {
		t.Fatal(err)
	}
	f.startWriter()
	f.history(1)
	f.caughtUp()
	hasChains(t, store, 3)
}
