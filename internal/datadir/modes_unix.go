//go:build !windows

package datadir

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	others = 0o007
	// keyBits are the mode bits that a key must not have, directoryBits those that a
	// directory must not have: a group may be allowed to read the administrator's
	// kubeconfig.
	keyBits       = 0o077
	directoryBits = 0o027
)

// eachProtected calls f with each directory and key of the layout and the mode bits that it
// must not have.
func eachProtected(dir string, f func(path string, bits fs.FileMode)) {
	f(dir, directoryBits)
	for _, name := range []string{"pki", "encryption", "etcd", "etcd/member"} {
		f(filepath.Join(dir, name), directoryBits)
	}
	for _, pattern := range []string{"pki/*.key", "encryption/*"} {
		keys, _ := filepath.Glob(filepath.Join(dir, pattern)) // the pattern is well-formed
		for _, key := range keys {
			f(key, keyBits)
		}
	}
}

// HasMode reports whether the file has the permissions.
func HasMode(info fs.FileInfo, mode fs.FileMode) bool { return info.Mode().Perm() == mode }

// LooseModes returns the directories and keys of the layout that other users may use.
// It changes nothing.
func LooseModes(dir string) []LooseMode {
	var list []LooseMode
	eachProtected(dir, func(path string, bits fs.FileMode) {
		info, err := os.Lstat(path) // what a link leads to is not part of the data directory
		if err != nil || info.Mode()&fs.ModeSymlink != 0 || info.Mode().Perm()&bits == 0 {
			return // the package that needs the file reports the error
		}
		list = append(list, LooseMode{Path: path, Mode: info.Mode(), Wanted: info.Mode() &^ bits})
	})
	return list
}

// TightenModes changes the modes of [LooseModes]. It returns a message for each file that
// other users could read or write, with the remedy if the mode cannot be changed, and one if root
// uses the directory of another user.
func (d *Dir) TightenModes() []string {
	var messages []string
	if uid := otherOwner(d.path); uid != 0 {
		messages = append(messages, fmt.Sprintf("root runs the server on %s of user %d, who may not use the files that "+
			"it makes: give them back with chown -R %[2]d %[1]s, and run it as that user", d.path, uid))
	}
	for _, loose := range LooseModes(d.path) {
		err := os.Chmod(loose.Path, loose.Wanted)
		switch mode := loose.Mode.Perm(); {
		case mode&others == 0:
		case err != nil:
			messages = append(messages, fmt.Sprintf("%s has the mode %04o, so that other users may use it, which "+
				"cannot be changed (%v): run chmod o-rwx %[1]s as its owner, and replace keys that others may have "+
				"read", loose.Path, mode, err))
		default:
			messages = append(messages, fmt.Sprintf("%s had the mode %04o, so that other users could use it, and has "+
				"%04o now: replace keys that others may have read", loose.Path, mode, loose.Wanted.Perm()))
		}
	}
	return messages
}
