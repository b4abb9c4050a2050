package configlock

import (
	"errors"
	"io/fs"
	"os"
)

// Upstream fact: kubectl locks a kubeconfig with a file beside it while it changes it
//
// Mirrors: k8s.io/client-go/tools/clientcmd.ModifyConfig
//   k8s.io/client-go/tools/clientcmd.lockFile
//   k8s.io/client-go/tools/clientcmd.unlockFile
//   k8s.io/client-go/tools/clientcmd.lockName
// Why: only ModifyConfig takes the lock, and it does not replace the file atomically. The
//   name of the lock is that of the file as it is given, links are not followed.
// Gain: `kubeconfig --merge` and `kubectl config` keep each other's changes.
// Breaks: a change that one of them makes at the same time is lost. TestConfigLock fails.

// Path returns the path of the file that locks a kubeconfig.
func Path(path string) string { return path + ".lock" }

// Lock locks the kubeconfig at the path, in a directory that exists. The error is
// fs.ErrExist if it is locked. A process that is killed leaves the lock behind.
func Lock(path string) (unlock func() error, err error) {
	lock := Path(path)
	file, err := os.OpenFile(lock, os.O_CREATE|os.O_EXCL, 0)
	if err != nil {
		return nil, err
	}
	unlock = func() error {
		if err := os.Remove(lock); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := file.Close(); err != nil {
		return nil, errors.Join(err, unlock())
	}
	return unlock, nil
}
