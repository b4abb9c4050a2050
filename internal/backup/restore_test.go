package backup

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

// restore restores the backup in the file, as journal.Restore does, with a file in the place
// of etcd's directory.
func restore(ctx context.Context, file, dir string, keep ...string) (restored *Restored, err error) {
	i, err := Begin(RestoreConfig{DataDir: dir, Keep: keep, Stamp: stamp})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, i.End()) }()
	m, err := i.ExtractFile(ctx, file, Key{})
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(i.Snapshot())
	if err := errors.Join(err, datadir.WriteFile(i.Join("etcd", "db"), data, 0o600)); err != nil {
		return nil, err
	}
	return i.Replace(m)
}

func saved(t *testing.T, source Source, options Options) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "backup.tar.gz")
	if _, err := Save(t.Context(), path, Encryption{}, produce(source, options)); err != nil {
		t.Fatal(err)
	}
	return path
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, entry := range entries {
		found = append(found, entry.Name())
	}
	return found
}

func TestRestoreIntoANewDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	restored, err := restore(t.Context(), saved(t, server(t), Options{}), dir)
	if err != nil {
		t.Fatal(err)
	}
	if restored.Old != "" {
		t.Errorf("something was there before: %s", restored.Old)
	}
	if got, want := names(t, dir), []string{"encryption", "etcd", "lock", "pki", "restored-config", "version.json"}; !slices.Equal(got, want) {
		t.Errorf("the directory has %v, want %v", got, want)
	}
	for name, mode := range map[string]os.FileMode{"pki/ca.key": 0o600, "pki/ca.crt": 0o644, "version.json": 0o600, "pki": 0o700} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || !datadir.HasMode(info, mode) {
			t.Errorf("%s is %v, %v; want %v", name, info.Mode(), err, mode)
		}
	}
	if previous, err := datadir.ReadStamp(dir); err != nil || *previous != stamp {
		t.Errorf("the stamp is %v, %v", previous, err)
	}
}

func TestRestoreKeepsThePreviousDirectory(t *testing.T) {
	source := server(t)
	dir := source.DataDir
	path := saved(t, source, Options{})
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, "pki", "ca.key"), []byte("another"), 0o600),
		os.Mkdir(filepath.Join(dir, "backups"), 0o700),
	); err != nil {
		t.Fatal(err)
	}
	restored, err := restore(t.Context(), path, dir, "backups")
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{filepath.Join(dir, "pki", "ca.key"): "key", filepath.Join(restored.Old, "pki", "ca.key"): "another"} {
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%s has %q, %v; want %q", file, got, err, want)
		}
	}
	if !slices.Contains(names(t, dir), "backups") {
		t.Errorf("the backups were moved: %v", names(t, dir))
	}
	again, err := restore(t.Context(), path, dir, "backups")
	if err != nil {
		t.Fatal(err)
	}
	if got := names(t, restored.Old); !slices.Contains(got, "pki") {
		t.Errorf("after a second restore, the original content is %v", got)
	}
	if got := names(t, again.Old); slices.Contains(got, filepath.Base(restored.Old)) {
		t.Errorf("the second restore has moved that of the first: %v", got)
	}
}

// TestRestoreRefuses: a directory is as it was after a restore that failed.
func TestRestoreRefuses(t *testing.T) {
	cut := filepath.Join(t.TempDir(), "cut.tar.gz")
	whole, err := os.ReadFile(saved(t, server(t), Options{}))
	if err := errors.Join(err, os.WriteFile(cut, whole[:len(whole)-20], 0o600)); err != nil {
		t.Fatal(err)
	}
	newer := server(t)
	newer.Stamp.Kubernetes = "v1.37.0"
	for name, test := range map[string]struct {
		backup, want string
	}{
		"truncated":      {cut, ErrDamaged.Error()},
		"missing":        {filepath.Join(t.TempDir(), "missing"), "missing: "},
		"newer":          {saved(t, newer, Options{}), "newer"},
		"another format": {os.Args[0], ErrDamaged.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			dir := server(t).DataDir
			before := names(t, dir)
			_, err := restore(t.Context(), test.backup, dir)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("it said %v, want %q", err, test.want)
			}
			if after := slices.DeleteFunc(names(t, dir), func(name string) bool { return name == "lock" }); !slices.Equal(before, after) {
				t.Errorf("the directory has %v, and had %v", after, before)
			}
			missing := filepath.Join(t.TempDir(), "missing")
			if _, err := restore(t.Context(), test.backup, missing); err == nil {
				t.Error("into a new directory it is restored")
			}
			if _, err := os.Stat(missing); !os.IsNotExist(err) {
				t.Errorf("a directory was made for nothing: %v", err)
			}
		})
	}
}

func TestRestoreNeedsTheLock(t *testing.T) {
	source := server(t)
	path := saved(t, source, Options{})
	held, err := datadir.Lock(source.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = held.Close() }()
	if _, err := restore(t.Context(), path, source.DataDir); !errors.Is(err, datadir.ErrLocked) {
		t.Errorf("it said %v", err)
	}
}

// TestRestoreIsCancelled: the data directory stays as it is, and nothing says that the
// backup is damaged.
func TestRestoreIsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	interrupted := errors.New("interrupted")
	cancel(interrupted)
	dir := filepath.Join(t.TempDir(), "new")
	_, err := restore(ctx, saved(t, server(t), Options{}), dir)
	if !errors.Is(err, interrupted) || errors.Is(err, ErrDamaged) {
		t.Errorf("the error is %v", err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it has made %v, %v", names(t, dir), err)
	}
}
