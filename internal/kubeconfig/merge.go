package kubeconfig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/configlock"
)

// Merged is the result of [Merge].
type Merged struct {
	// Changed reports whether the file was changed.
	Changed bool
	// Backup is the path of the former content; empty when there was no file or
	// nothing changed.
	Backup string
}

// Merge adds the kubeconfig in data to the user's file as the context of that name, and
// makes it the current context if use is set. It replaces the file atomically, if
// something changes, and keeps the previous content beside it. Mode and owner stay, as
// kubectl keeps them. It does not change a file that is not a kubeconfig, or entries of
// that name that belong to another server: the error has a free name. It waits five seconds
// at most while kubectl or another merge has locked the file.
func Merge(ctx context.Context, data []byte, path, name string, use bool, now time.Time) (_ Merged, err error) {
	ours, err := clientcmd.Load(data)
	if err != nil {
		return Merged{}, fmt.Errorf("read the server's kubeconfig: %w", err)
	}
	if ours.Clusters[Name] == nil || ours.AuthInfos[Name] == nil {
		return Merged{}, fmt.Errorf("the server's kubeconfig has no cluster or no user %s: remove the file, and the next start of the server writes it", Name)
	}
	unlock, err := lock(ctx, path)
	if err != nil {
		return Merged{}, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target // replace what a link points to, not the link
	}
	theirs, old, info, err := readForMerge(path)
	if err != nil {
		return Merged{}, err
	}
	before, err := clientcmd.Write(*theirs)
	if err != nil {
		return Merged{}, fmt.Errorf("merge into %s: %w", path, err)
	}
	if kind := entryOfAnother(theirs, name, ours.Clusters[Name]); kind != "" {
		return Merged{}, fmt.Errorf("%s has a %s %q of another server; nothing was changed; choose another name, as --context %s", path, kind, name, freeName(theirs, name))
	}
	add(theirs, ours, name)
	if use || theirs.CurrentContext == "" {
		theirs.CurrentContext = name
	}
	merged, err := clientcmd.Write(*theirs)
	if err != nil {
		return Merged{}, fmt.Errorf("merge into %s: %w", path, err)
	}
	if old != nil && bytes.Equal(before, merged) {
		return Merged{}, nil
	}
	result, mode := Merged{Changed: true}, os.FileMode(0o600)
	if old != nil {
		mode = info.Mode().Perm()
		result.Backup = path + ".backup-" + now.UTC().Format("20060102T150405.000000Z")
		if err := datadir.ReplaceFile(result.Backup, old, 0o600, info); err != nil {
			return Merged{}, err
		}
	}
	return result, datadir.ReplaceFile(path, merged, mode, info)
}

const (
	lockTimeout = 5 * time.Second
	lockPoll    = 20 * time.Millisecond
)

// lock locks the user's file, as kubectl does, and makes its directory.
func lock(ctx context.Context, path string) (unlock func() error, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("merge into %s: %w", path, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, lockTimeout,
		fmt.Errorf("kubectl or another merge has locked it; if neither runs, one was killed: remove %s", configlock.Path(path)))
	defer cancel()
	for {
		unlock, err = configlock.Lock(path)
		if err == nil {
			return unlock, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, fmt.Errorf("merge into %s: lock it: %w", path, err)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("merge into %s: %w", path, context.Cause(ctx))
		case <-time.After(lockPoll):
		}
	}
}

// readForMerge reads the user's file. Without one, old and info are nil.
func readForMerge(path string) (cfg *api.Config, old []byte, info fs.FileInfo, err error) {
	old, err = os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return api.NewConfig(), nil, nil, nil
	}
	if err != nil {
		return nil, nil, nil, fmt.Errorf("merge into %s: %w", path, err)
	}
	if cfg, err = clientcmd.Load(old); err != nil {
		return nil, nil, nil, fmt.Errorf("%s is not a kubeconfig (%w); nothing was changed", path, err)
	}
	if info, err = os.Stat(path); err != nil {
		return nil, nil, nil, fmt.Errorf("merge into %s: %w", path, err)
	}
	return cfg, old, info, nil
}

// entryOfAnother returns the kind of an entry of that name that does not belong to our
// server: "cluster", "user" or "context"; "" if there is none. A cluster belongs to it
// if it has the same URL or the same authority; a user and a context, if a merge makes
// them for that cluster.
func entryOfAnother(cfg *api.Config, name string, ours *api.Cluster) string {
	cluster, user, context := cfg.Clusters[name], cfg.AuthInfos[name], cfg.Contexts[name]
	same := cluster != nil && (cluster.Server == ours.Server ||
		len(ours.CertificateAuthorityData) > 0 && bytes.Equal(cluster.CertificateAuthorityData, ours.CertificateAuthorityData))
	paired := context != nil && context.Cluster == name && context.AuthInfo == name
	switch {
	case cluster != nil && !same:
		return "cluster"
	case context != nil && (!paired || !same):
		return "context"
	case user != nil && (!paired || !same):
		return "user"
	}
	return ""
}

// freeName is the name with the first number that no entry has.
func freeName(cfg *api.Config, name string) string {
	for i := 2; ; i++ {
		free := fmt.Sprintf("%s-%d", name, i)
		if cfg.Clusters[free] == nil && cfg.AuthInfos[free] == nil && cfg.Contexts[free] == nil {
			return free
		}
	}
}

// add sets the three entries. A namespace that the user has chosen stays.
func add(theirs, ours *api.Config, name string) {
	cluster, user := ours.Clusters[Name].DeepCopy(), ours.AuthInfos[Name].DeepCopy()
	context := &api.Context{Cluster: name, AuthInfo: name}
	if former := theirs.Contexts[name]; former != nil {
		context.Namespace, context.LocationOfOrigin = former.Namespace, former.LocationOfOrigin
	}
	theirs.Clusters[name], theirs.AuthInfos[name], theirs.Contexts[name] = cluster, user, context
}
