package etcd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
)

// checkDatabase opens the member's database for reading and closes it again.
// etcd opens it in a goroutine of its own (storage.OpenBackend), where a panic
// over a file that is not a database cannot be recovered.
func checkDatabase(dir string) error {
	file := filepath.Join(dir, "member", "snap", "db")
	if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	db, err := bbolt.Open(file, 0o600, &bbolt.Options{ReadOnly: true})
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		return fmt.Errorf("the database %s cannot be read (%w): %s", file, err, remedy)
	}
	return nil
}
