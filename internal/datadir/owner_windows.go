package datadir

// KeepOwner does nothing on Windows.
func KeepOwner(string) error { return nil }

// ForeignFiles returns nothing on Windows.
func ForeignFiles(string) (owns string, files []string, err error) { return "", nil, nil }
