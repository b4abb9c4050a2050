package datadir

// TightenModes does nothing here: access is inherited from the directory above.
func (d *Dir) TightenModes() []string { return nil }
