package envtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
)

const (
	// temporaryPrefix begins the names of the directories that envtest makes, and removes
	// when it stops.
	temporaryPrefix = "k8s_test_framework_"
	// parentPoll is the time between two looks at the parent process.
	parentPoll = 500 * time.Millisecond
	// unlockTimeout bounds the wait for the end of the server that uses a directory.
	unlockTimeout = 20 * time.Second
)

// Owner is the test program that has started this process with temporary directories of
// envtest. When it has ended without stopping this process, nobody else does: it was
// killed, or it runs on Windows, where envtest cannot stop processes.
type Owner struct {
	directory string // of envtest's, to remove; or ""
	data      string // of the server that may use the directory; or ""
	ended     func() bool
	release   func() error
}

// newOwner returns the owner of this process, which uses the directory and the others:
// nil if envtest has made none of them, because they belong to a user then.
func newOwner(directory, data string, others ...string) (*Owner, error) {
	o := &Owner{data: data}
	if temporary(directory) {
		o.directory = directory
	} else if !slices.ContainsFunc(others, temporary) {
		return nil, nil
	}
	var err error
	if o.ended, o.release, err = watchParent(); err != nil {
		return nil, fmt.Errorf("watch the process that has started this one: %w", err)
	}
	return o, nil
}

// temporary reports whether envtest has made the directory.
func temporary(dir string) bool {
	return filepath.Dir(dir) == filepath.Clean(os.TempDir()) && strings.HasPrefix(filepath.Base(dir), temporaryPrefix)
}

// Run calls serve with a context that ends when ctx ends or the owner has ended. In the
// latter case it then removes envtest's directory. A nil Owner never ends.
func (o *Owner) Run(ctx context.Context, serve func(context.Context) error) (err error) {
	if o == nil {
		return serve(ctx)
	}
	defer func() { err = errors.Join(err, o.release()) }()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		_ = wait.PollUntilContextCancel(ctx, parentPoll, true, func(context.Context) (bool, error) {
			return o.ended(), nil
		}) // the error is that ctx has ended
		stop()
	}()
	err = serve(ctx)
	stop()
	<-watched
	if o.ended() {
		err = errors.Join(err, o.remove())
	}
	return err
}

// remove removes the directory when no server uses it.
func (o *Owner) remove() error {
	if o.directory == "" {
		return nil
	}
	if o.data != "" {
		ctx, cancel := context.WithTimeout(context.Background(), unlockTimeout)
		defer cancel()
		_ = datadir.AwaitUnlocked(ctx, o.data) // a server that hangs does not keep the directory
	}
	if err := os.RemoveAll(o.directory); err != nil {
		return fmt.Errorf("remove the directory that the ended test has left: %w", err)
	}
	return nil
}
