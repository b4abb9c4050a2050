package apiserver

// fileLimit returns the limit of open files of the process; there is none.
func fileLimit() (int, bool) { return 0, false }
