//go:build !windows

package datadir

import (
	"errors"
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

// TightenModes removes the rights of other users from the directories and keys of the
// layout that belong to this user. It returns a message for each that other users could
// read or write, with the remedy if the mode cannot be changed.
func (d *Dir) TightenModes() []string {
	var messages []string
	eachProtected(d.path, func(path string, bits fs.FileMode) {
		if message := tighten(path, bits); message != "" {
			messages = append(messages, message)
		}
	})
	return messages
}

// HasMode reports whether the file has the permissions.
func HasMode(info fs.FileInfo, mode fs.FileMode) bool { return info.Mode().Perm() == mode }

// LooseMode is the mode of a file or directory that other users may use.
type LooseMode struct {
	Path string
	// Mode is what it has, Wanted what it should have.
	Mode, Wanted fs.FileMode
}

// LooseModes returns the directories and keys of the layout that other users may use.
// It changes nothing.
func LooseModes(dir string) []LooseMode {
	var list []LooseMode
	eachProtected(dir, func(path string, bits fs.FileMode) {
		info, err := os.Lstat(path)
		if err != nil || info.Mode()&fs.ModeSymlink != 0 || info.Mode().Perm()&bits == 0 {
			return
		}
		list = append(list, LooseMode{Path: path, Mode: info.Mode().Perm(), Wanted: info.Mode().Perm() &^ bits})
	})
	return list
}

// tighten changes the file itself and skips symbolic links, whose targets are not
// part of the data directory.
func tighten(path string, bits fs.FileMode) string {
	info, err := os.Lstat(path)
	if err != nil || info.Mode()&fs.ModeSymlink != 0 || info.Mode().Perm()&bits == 0 {
		return "" // the package that needs the file reports it
	}
	mode := info.Mode().Perm()
	uid, _, err := owner(path)
	if err == nil && uid != os.Geteuid() {
		err = errors.New("it belongs to another user")
	}
	if err == nil {
		// The other mode bits stay, such as setgid.
		err = os.Chmod(path, info.Mode()&^bits)
	}
	switch {
	case mode&others == 0:
		return ""
	case err != nil:
		return fmt.Sprintf("%s has the mode %04o, so that other users may use it, which cannot be changed (%v): run chmod o-rwx %s as its owner, and replace keys that others may have read", path, mode, err, path)
	}
	return fmt.Sprintf("%s had the mode %04o, so that other users could use it, and has %04o now: replace keys that others may have read", path, mode, mode&^bits)
}
