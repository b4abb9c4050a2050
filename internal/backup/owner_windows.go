package backup

// giveToOwner does nothing: files inherit their directory's access rights.
func giveToOwner(string, string) error { return nil }
