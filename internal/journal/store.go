package journal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// ErrExists means that an object was not created because its name is taken.
var ErrExists = errors.New("the object exists")

// Object is an entry of a listing.
type Object struct {
	// Name is relative to the destination, with slashes.
	Name      string
	SizeBytes int64
}

// Store keeps objects under names. Implementations are safe for concurrent use.
type Store interface {
	// Create stores size bytes of body under a new name. It returns ErrExists for a
	// name that is taken, and leaves nothing under the name when it fails.
	Create(ctx context.Context, name string, body io.ReadSeeker, size int64) error
	// Open returns the content of an object; an error that is os.ErrNotExist if
	// there is none. The caller closes it.
	Open(ctx context.Context, name string) (io.ReadCloser, error)
	// List returns the objects whose names begin with prefix and are greater than
	// after, in the order of their names.
	List(ctx context.Context, prefix, after string) ([]Object, error)
	// Folders returns the names directly below prefix that have names below them, in
	// order and without slashes. prefix is empty or ends with a slash.
	Folders(ctx context.Context, prefix string) ([]string, error)
	// Remove removes an object. One that does not exist is no error.
	Remove(ctx context.Context, name string) error
	// String is the destination as the user writes it.
	String() string
}

// isBucket reports whether the store needs no directory to be mounted.
func isBucket(store Store) bool { return strings.HasPrefix(store.String(), bucketScheme) }

// bucketScheme begins the URL of a bucket.
const bucketScheme = "s3://"

// Location is where a journal lies.
type Location struct {
	// URL is a path or s3://BUCKET[/PREFIX].
	URL string
	// Endpoint, Region and CredentialsFile are of S3; see [config.Journal].
	Endpoint, Region, CredentialsFile string
}

// Open returns the store at the location. It does not reach it.
func (l Location) Open() (Store, error) {
	switch scheme, _, isURL := strings.Cut(l.URL, "://"); {
	case scheme == "s3" && isURL:
		return newS3(l)
	case isURL:
		return nil, fmt.Errorf("%q is not a destination of a journal: write a directory or s3://BUCKET/PREFIX", l.URL)
	}
	path, err := filepath.Abs(l.URL)
	if err != nil {
		return nil, fmt.Errorf("use the journal %s: %w", l.URL, err)
	}
	return NewDirectory(path), nil
}

const (
	// operationLimit bounds a request to the destination, listLimit a listing: a week has
	// 600,000 segments.
	operationLimit = time.Minute
	listLimit      = 10 * time.Minute
	// leastRate, in bytes per second, is that of a slow destination.
	leastRate = 1 << 20
)

// within bounds an operation on so many bytes.
func within(ctx context.Context, store Store, operation string, limit time.Duration, bytes int64) (context.Context, context.CancelFunc) {
	limit += time.Duration(bytes/leastRate) * time.Second
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s does not answer: %s took more than %s", store, operation, limit))
}

// caused returns the error of an operation, or why its context has ended.
func caused(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// isMissing reports whether the error means that the store has no such object.
func isMissing(err error) bool { return errors.Is(err, os.ErrNotExist) }
