package history

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"kube-hyper-mini.io/kube-hyper-mini/internal/journal"
)

// Objects has the objects of a moment. Their values are in a temporary file, encoded as
// in etcd; Close removes it. Read may be called concurrently.
type Objects struct {
	journal *Journal
	file    *os.File
	index   map[string]place
}

// place is where a value lies in the file.
type place struct {
	offset int64
	size   int
}

// Objects reads the objects of a moment whose keys match. match gets keys without the
// prefix of Kubernetes; they begin with a slash.
func (a *Journal) Objects(ctx context.Context, m *Moment, match func(key string) bool) (*Objects, error) {
	file, err := os.CreateTemp("", "kube-hyper-mini-objects-") // mode 0600
	if err != nil {
		return nil, fmt.Errorf("make a file for the objects: %w", err)
	}
	o := &Objects{journal: a, file: file}
	var offset int64
	var out *bufio.Writer
	begin := func() error {
		o.index, offset = map[string]place{}, 0
		_, err := file.Seek(0, io.SeekStart)
		out = bufio.NewWriterSize(file, 1<<20)
		return err
	}
	err = a.read(ctx, m, begin, func(r journal.Revision) error {
		for _, change := range r.Changes {
			key := string(change.Key)
			if !strings.HasPrefix(key, a.prefix) {
				continue
			}
			key = key[len(a.prefix)-1:]
			if !match(key) {
				continue
			}
			if change.Deleted {
				delete(o.index, key)
				continue
			}
			if _, err := out.Write(change.Value); err != nil {
				return err
			}
			o.index[key] = place{offset, len(change.Value)}
			offset += int64(len(change.Value))
		}
		return nil
	})
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("collect the objects: %w", err), o.Close())
	}
	return o, nil
}

// Close removes the file.
func (o *Objects) Close() error { return errors.Join(o.file.Close(), os.Remove(o.file.Name())) }

// Each calls visit with the metadata of each object, in the order of their keys, which are
// as match got them. If a value cannot be read, the metadata is nil and problem is the
// reason. Keys without an object of Kubernetes are left out.
func (o *Objects) Each(ctx context.Context,
	visit func(key string, metadata *metav1.PartialObjectMetadata, problem error) error) error {
	for _, key := range slices.Sorted(maps.Keys(o.index)) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		value, err := o.value(key)
		if err != nil {
			return err
		}
		metadata, problem := o.journal.metadata(ctx, o.stored(key), value)
		if errors.Is(problem, errNotAnObject) {
			continue
		}
		if err := visit(key, metadata, problem); err != nil {
			return err
		}
	}
	return nil
}

// Read returns the object of a key.
func (o *Objects) Read(ctx context.Context, key string) (*unstructured.Unstructured, error) {
	value, err := o.value(key)
	if err != nil {
		return nil, err
	}
	return o.journal.object(ctx, o.stored(key), value)
}

// stored returns the key in etcd.
func (o *Objects) stored(key string) string { return o.journal.prefix + strings.TrimPrefix(key, "/") }

func (o *Objects) value(key string) ([]byte, error) {
	place := o.index[key]
	value := make([]byte, place.size)
	if _, err := o.file.ReadAt(value, place.offset); err != nil {
		return nil, fmt.Errorf("read the objects: %w", err)
	}
	return value, nil
}
