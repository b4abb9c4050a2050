package datadir

import (
	"io/fs"
	"os"
)

// BecomeOwner does nothing on Windows.
func BecomeOwner(string) error { return nil }

// KeepOwner does nothing on Windows.
func KeepOwner(string) error { return nil }

// ForeignFiles returns nothing on Windows.
func ForeignFiles(string) (owns string, files []string, err error) { return "", nil, nil }

func chownLike(*os.File, fs.FileInfo) error { return nil }

// OwnedByUser reports true on Windows, where each user has a temporary directory of
// their own.
func OwnedByUser(fs.FileInfo) bool { return true }
