//go:build !windows

package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// KeepOwner gives files of root in another user's data directory to that user and
// group, for which a server that root has started works. It changes files of the layout only. For other users, and in a directory of root or one that
// does not exist, it does nothing.
func KeepOwner(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	uid, gid, err := owner(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && uid == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find the owner of %s: %w", dir, err)
	}
	// os.Root does not follow links of the other user out of the directory.
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("keep the owner of %s: %w", dir, err)
	}
	defer func() { _ = root.Close() }() // only read
	err = fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && path != "." && !strings.Contains(path, "/") && layoutEntryOf(entry) == nil {
			return skip(entry)
		}
		if err == nil {
			err = chownFromRoot(root, path, uid, gid)
		}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.EROFS) {
			return nil // it was removed, or is on a read-only mount
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("keep the owner of %s: %w", dir, err)
	}
	return nil
}

// ForeignFiles returns the files of the layout that belong to another user than the
// directory does and that its owner may not use, relative to it, and the owner as
// UID:GID.
func ForeignFiles(dir string) (owns string, files []string, err error) {
	uid, gid, err := owner(dir)
	if err != nil {
		return "", nil, fmt.Errorf("find the owner of %s: %w", dir, err)
	}
	err = fs.WalkDir(os.DirFS(dir), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path != "." && !strings.Contains(path, "/") && layoutEntryOf(entry) == nil {
			return skip(entry)
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok || int(stat.Uid) == uid || isLink(entry) || uid == 0 {
			return nil
		}
		// By the rights of other users. The group is left out: the owner need not be in it.
		needed := fs.FileMode(0o004)
		switch {
		case entry.IsDir():
			needed = 0o007
		case strings.HasPrefix(path, "etcd/"):
			needed = 0o006
		}
		if info.Mode().Perm()&needed != needed {
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		return "", nil, fmt.Errorf("look for files of other users in %s: %w", dir, err)
	}
	return fmt.Sprintf("%d:%d", uid, gid), files, nil
}

func skip(entry fs.DirEntry) error {
	if entry.IsDir() {
		return fs.SkipDir
	}
	return nil
}

// chownFromRoot changes the owner of a file of root. A file with several hard links may also be
// another file of root's: it is not changed.
func chownFromRoot(root *os.Root, path string, uid, gid int) error {
	info, err := root.Lstat(path)
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || stat.Uid != 0 || info.Mode().IsRegular() && stat.Nlink > 1 {
		return nil
	}
	return root.Lchown(path, uid, gid)
}

func owner(path string) (uid, gid int, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, 0, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, errors.New("the system does not report it")
	}
	return int(stat.Uid), int(stat.Gid), nil
}

// chownLike gives a file of root to the owner and the group of another one.
func chownLike(file *os.File, like fs.FileInfo) error {
	stat, ok := like.Sys().(*syscall.Stat_t)
	if !ok || os.Geteuid() != 0 {
		return nil
	}
	return file.Chown(int(stat.Uid), int(stat.Gid))
}

// OwnedByUser reports whether a file belongs to the user of this process.
func OwnedByUser(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}
