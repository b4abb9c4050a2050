package datadir

import "io/fs"

// TightenModes does nothing here: access is inherited from the directory above.
func (d *Dir) TightenModes() []string { return nil }

// HasMode reports true: files have no modes here.
func HasMode(fs.FileInfo, fs.FileMode) bool { return true }

// LooseMode is the mode of a file or directory that other users may use.
type LooseMode struct {
	Path string
	// Mode is what it has, Wanted what it should have.
	Mode, Wanted fs.FileMode
}

// LooseModes returns nothing here, see [Dir.TightenModes].
func LooseModes(string) []LooseMode { return nil }
