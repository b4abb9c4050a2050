package apiserver

// fileLimit is how many files the process may have open; there is no limit.
func fileLimit() (int, bool) { return 0, false }
