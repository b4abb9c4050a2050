package datadir

import "io/fs"

// TightenModes does nothing here: access is inherited from the directory above.
func (d *Dir) TightenModes() []string { return nil }

// HasMode reports true: files have no modes here.
func HasMode(fs.FileInfo, fs.FileMode) bool { return true }

// LooseModes returns nothing here, see [Dir.TightenModes].
func LooseModes(string) []LooseMode { return nil }
