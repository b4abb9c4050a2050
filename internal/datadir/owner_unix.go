//go:build !windows

package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// BecomeOwner makes the process of root one of the owner of the directory, with the groups
// of that user, before it reads the directory: links and files in it must not lead root to
// what the owner may not use. For other users, and for a directory of root or one that does not
// exist, it does nothing. There is no way back.
func BecomeOwner(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = become(info)
	}
	if err != nil {
		return fmt.Errorf("give up root for the owner of %s: %w; run this command as that user", dir, err)
	}
	return nil
}

func become(info fs.FileInfo) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return errors.New("the system does not report it")
	}
	uid, gid := int(stat.Uid), int(stat.Gid)
	if uid == 0 {
		return nil
	}
	groups := []int{gid}
	if account, err := user.LookupId(strconv.Itoa(uid)); err == nil { // a container may not have the name
		names, err := account.GroupIds()
		if err != nil {
			return err
		}
		for _, name := range names {
			if group, err := strconv.Atoi(name); err == nil {
				groups = append(groups, group)
			}
		}
	}
	return errors.Join(syscall.Setgroups(groups), syscall.Setgid(gid), syscall.Setuid(uid))
}

// otherOwner returns the user who owns the directory if root runs this process; else, and for a
// directory of root, 0.
func otherOwner(dir string) uint32 {
	if info, err := os.Stat(dir); err == nil && os.Geteuid() == 0 {
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			return stat.Uid
		}
	}
	return 0
}
