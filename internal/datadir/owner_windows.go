package datadir

// KeepOwner does nothing here: files belong to who made the directory.
func KeepOwner(string) error { return nil }
