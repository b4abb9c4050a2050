package etcd

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/encoding/protowire"
)

// database writes records as etcd does, and removes some, so that there are
// pages in use and free ones.
func database(t *testing.T, records, size int) []byte {
	t.Helper()
	file := filepath.Join(t.TempDir(), "db")
	db, err := bbolt.Open(file, 0o600, &bbolt.Options{PageSize: 4096, NoFreelistSync: true, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	for begin := 1; begin <= records; begin += 50 {
		err = errors.Join(err, db.Update(func(tx *bbolt.Tx) error {
			bucket, err := tx.CreateBucketIfNotExists([]byte("key"))
			if err != nil {
				return err
			}
			for i := begin; i < begin+50; i++ {
				err = errors.Join(err, bucket.Put(revision(i), record(i, i%(2*size))))
				if i > 100 && i%5 == 0 {
					err = errors.Join(err, bucket.Delete(revision(i-100)))
				}
			}
			_, other := tx.CreateBucketIfNotExists([]byte("meta"))
			return errors.Join(err, other)
		}))
	}
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func revision(i int) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(i)), '_', 0, 0, 0, 0, 0, 0, 0, 0)
}

func record(i, size int) []byte {
	message := protowire.AppendBytes(protowire.AppendTag(nil, fieldKey, protowire.BytesType), fmt.Appendf(nil, "/key-%d", i))
	message = protowire.AppendVarint(protowire.AppendTag(message, fieldModRevision, protowire.VarintType), uint64(i))
	return protowire.AppendBytes(protowire.AppendTag(message, fieldValue, protowire.BytesType), bytes.Repeat([]byte("v"), size))
}

// check reads the database from memory.
func check(t *testing.T, data []byte, bound int64) error {
	t.Helper()
	return checkPages(t.Context(), bytes.NewReader(data), int64(len(data)), bound, func(bucket, key, value []byte) error {
		if string(bucket) != "key" {
			return nil
		}
		_, err := ParseRecord(key, value)
		return err
	})
}

// structure lists the bytes of the pages in use that are neither keys nor
// values. It leaves out the low bytes of a reference to another page: a wrong
// one may lead to a page that was freed, and that is an older copy of the right
// one.
func structure(t *testing.T, data []byte) []int {
	t.Helper()
	p := &pages{ctx: t.Context(), file: bytes.NewReader(data), fileSize: int64(len(data)), stride: 1}
	if err := p.readMeta(); err != nil {
		t.Fatal(err)
	}
	p.seen = make([]uint64, p.end/64+1)
	err := p.walk(p.root, 0, nil, nil, func(bucket element) error {
		return p.bucket(bucket, func(element) error { return nil })
	})
	if err != nil {
		t.Fatal(err)
	}
	var structure []int
	for id := uint64(2); id < p.end; {
		page := data[int64(id)*p.pageSize:]
		if p.seen[id/64]&(1<<(id%64)) == 0 {
			id++
			continue
		}
		branch := binary.NativeEndian.Uint16(page[8:]) == branchPage
		for at := range pageHeader + elementSize*int(binary.NativeEndian.Uint16(page[10:])) {
			if within := (at - pageHeader) % elementSize; branch && at >= pageHeader && (within == 8 || within == 9) {
				continue
			}
			structure = append(structure, int(int64(id)*p.pageSize)+at)
		}
		id += 1 + uint64(binary.NativeEndian.Uint32(page[12:]))
	}
	return structure
}

// TestAlteredStructureIsFound alters each byte of the structure, and takes the
// last element from a page.
func TestAlteredStructureIsFound(t *testing.T) {
	data := database(t, 400, 300)
	if err := check(t, data, math.MaxInt64); err != nil {
		t.Fatal(err)
	}
	places := structure(t, data)
	if len(places) < 1000 {
		t.Fatalf("the structure has only %d bytes", len(places))
	}
	for _, at := range places {
		data[at] ^= 0xff
		if check(t, data, math.MaxInt64) == nil {
			t.Errorf("an altered byte at %d is not found", at)
		}
		data[at] ^= 0xff
	}
	leaves := 0
	for page := 2; page < len(data)/4096; page++ {
		count := data[page*4096+10:]
		before := binary.NativeEndian.Uint16(count)
		if binary.NativeEndian.Uint16(data[page*4096+8:]) != leafPage || before < 2 || !slices.Contains(places, page*4096+10) {
			continue
		}
		leaves++
		binary.NativeEndian.PutUint16(count, before-1)
		if check(t, data, math.MaxInt64) == nil {
			t.Errorf("page %d lost its last element, and that is not found", page)
		}
		binary.NativeEndian.PutUint16(count, before)
	}
	if leaves < 5 {
		t.Errorf("only %d leaves are in use", leaves)
	}
}

// counter counts what is read.
type counter struct {
	io.ReaderAt
	bytes int64
}

// ReadAt implements [io.ReaderAt].
func (c *counter) ReadAt(p []byte, offset int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(p, offset)
	c.bytes += int64(n)
	return n, err
}

// TestLargeDatabaseIsReadInParts: about as many bytes as the bound are read, from the first
// to the last record.
func TestLargeDatabaseIsReadInParts(t *testing.T) {
	const records, bound = 20000, 1 << 20
	data := database(t, records, 300)
	file := &counter{ReaderAt: bytes.NewReader(data)}
	visited, last := 0, []byte(nil)
	err := checkPages(t.Context(), file, int64(len(data)), bound, func(_, key, _ []byte) error {
		visited++
		last = append(last[:0], key...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if file.bytes > 2*bound || file.bytes < bound/4 {
		t.Errorf("it reads %d of %d bytes; the bound is %d", file.bytes, len(data), bound)
	}
	if visited == 0 || visited > records/2 || bytes.Compare(last, revision(records*9/10)) < 0 {
		t.Errorf("it visits %d records up to %x", visited, last)
	}
}

// TestParseRecord accepts what etcd writes.
func TestParseRecord(t *testing.T) {
	deletion := append(revision(7), 't')
	for name, c := range map[string]struct {
		key, value []byte
		want       string
	}{
		"a record":            {revision(7), record(7, 3), ""},
		"a deletion":          {deletion, record(0, 0), ""},
		"a raised revision":   {revision(7), nil, ""},
		"a short key":         {revision(7)[:16], record(7, 3), "not a revision"},
		"another separator":   {bytes.ReplaceAll(revision(7), []byte("_"), []byte("-")), record(7, 3), "not a revision"},
		"another revision":    {revision(7), record(8, 3), "the record is of revision 8"},
		"no key":              {revision(7), []byte{fieldModRevision << 3, 7}, "a record without a key"},
		"a truncated message": {revision(7), record(7, 3)[:5], "read a message of etcd: unexpected EOF"},
	} {
		_, err := ParseRecord(c.key, c.value)
		if (err == nil) != (c.want == "") || err != nil && err.Error() != c.want {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
