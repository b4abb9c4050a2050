package etcd

import (
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"
)

// smallDatabase is one of a few pages.
func smallDatabase(f *testing.F) []byte {
	f.Helper()
	file := filepath.Join(f.TempDir(), "db")
	db, err := bbolt.Open(file, 0o600, &bbolt.Options{PageSize: 1024, NoFreelistSync: true})
	if err != nil {
		f.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range []string{"key", "meta", "lease"} {
			bucket, err := tx.CreateBucket([]byte(name))
			if err != nil {
				return err
			}
			if name == "key" {
				for i := range 20 {
					if err := bucket.Put(append(make([]byte, 7), byte(i+1), '_', 0, 0, 0, 0, 0, 0, 0, 0), make([]byte, 100)); err != nil {
						return err
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		f.Fatal(err)
	}
	if err := db.Close(); err != nil {
		f.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		f.Fatal(err)
	}
	return data[:min(len(data), 16<<10)]
}

// FuzzDatabase: the check of any file returns, with an error or without.
func FuzzDatabase(f *testing.F) {
	database := smallDatabase(f)
	for _, offset := range []uint16{0, 1024, 2048, 3072, 4096, 5000} {
		f.Add(offset, []byte("\xff\xff\xff\xff\xff\xff\xff\xff"))
	}
	f.Fuzz(func(t *testing.T, offset uint16, patch []byte) {
		data := append([]byte{}, database...)
		copy(data[min(int(offset), len(data)):], patch)
		file := filepath.Join(t.TempDir(), "db")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		_ = checkDatabase(t.Context(), file) // that it returns is the point
	})
}
