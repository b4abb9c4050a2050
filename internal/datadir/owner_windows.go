package datadir

import (
	"io/fs"
	"os"
)

// BecomeOwner does nothing on Windows.
func BecomeOwner(string) error { return nil }

func chownLike(*os.File, fs.FileInfo) error { return nil }

// OwnedByUser reports true on Windows, where each user has a temporary directory of
// their own.
func OwnedByUser(fs.FileInfo) bool { return true }
