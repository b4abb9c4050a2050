package encryption

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"

	"kube-hyper-mini.io/kube-hyper-mini/internal/reconcile"
	"kube-hyper-mini.io/kube-hyper-mini/internal/upstream/store"
)

const (
	// reloadTimeout bounds the wait for the API server to load a changed file.
	reloadTimeout = 2 * time.Minute
	// settleDelay is the pause before the pass over etcd that decides whether the old
	// key can go: writes that the API server encrypted with it have ended then.
	settleDelay = time.Second
	// pollInterval is the time between two checks whether the file was loaded.
	pollInterval = 100 * time.Millisecond
)

// Rotation replaces the key that encrypts. It can be interrupted at any point;
// the next Run continues it. Objects stay readable throughout.
type Rotation struct {
	// File is the EncryptionConfiguration.
	File string
	// Store is etcd, and Root the prefix of all objects in it, as /registry.
	Store clientv3.KV
	Root  string
	// Encrypt encrypts a value as the only API server does at the moment; nil if none
	// runs.
	Encrypt func(ctx context.Context, resource schema.GroupResource) ([]byte, error)
	// Alone returns an error if other servers use the store, which do not have the
	// new key. It is called before the rotation begins and before the old key is
	// removed.
	Alone func(ctx context.Context) error
}

// rotating reports whether a rotation has begun and not ended: only then a file that the
// server has written has several keys, the new one first.
func (c *configuration) rotating() bool { return c.generated && len(c.secretboxKeys()) > 1 }

// Interrupted reports whether a rotation of the file has begun and not ended.
func Interrupted(file string) bool {
	c, err := read(file)
	return err == nil && c != nil && c.rotating()
}

// Run rotates, or continues an interrupted rotation. It returns the name of the new key and
// how many objects it has written again.
func (r *Rotation) Run(ctx context.Context) (key string, rewritten int, err error) {
	if err := r.Alone(ctx); err != nil {
		return "", 0, err
	}
	c, err := r.begin()
	if err != nil {
		return "", 0, err
	}
	ring, err := newKeyring(c)
	if err != nil {
		return "", 0, err
	}
	keys := c.secretboxKeys()
	prefix := store.SecretboxPrefix + keys[0].Name + ":"
	if err := r.waitLoaded(ctx, c, prefix); err != nil {
		return "", 0, err
	}
	revision, rewritten, err := r.rewriteAll(ctx, &rewriter{Rotation: r, config: c, ring: ring, newKey: prefix})
	if err != nil {
		return "", 0, err
	}
	if err := r.Alone(ctx); err != nil {
		return "", 0, fmt.Errorf("the old key stays in %s, and the rotation is unfinished: %w", r.File, err)
	}
	// Watches that begin in the past read old versions, which need the old key.
	if _, err := r.Store.Compact(ctx, revision); err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return "", 0, fmt.Errorf("remove old versions of the objects from etcd: %w", err)
	}
	if err := c.withKeys(keys[:1]).write(); err != nil {
		return "", 0, fmt.Errorf("remove the old key: %w", err)
	}
	return keys[0].Name, rewritten, nil
}

// begin returns a configuration that has the new key first, written to the file.
func (r *Rotation) begin() (*configuration, error) {
	c, err := read(r.File)
	if err != nil {
		return nil, err
	}
	if c != nil && !c.generated {
		return nil, fmt.Errorf("%s was edited, so that the server only reads it: rotate its keys by editing it, as "+
			"Kubernetes documents; KMS plugins rotate their keys themselves", r.File)
	}
	var encrypted []string
	if c != nil {
		encrypted, _ = c.resources()
	}
	if len(encrypted) == 0 {
		return nil, fmt.Errorf("no resource is encrypted with a key in %s, so that there is none to rotate: name "+
			"resources in apiServer.encryption.resources", r.File)
	}
	if c.rotating() {
		return c, nil
	}
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	c = c.withKeys(append([]apiserverv1.Key{key}, c.secretboxKeys()...))
	return c, c.write()
}

// waitLoaded returns when the API server writes with the key of the prefix.
func (r *Rotation) waitLoaded(ctx context.Context, c *configuration, prefix string) error {
	if r.Encrypt == nil {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, reloadTimeout, fmt.Errorf("the API server has not loaded %s within "+
		"%s, see its log; rotate again to continue", r.File, reloadTimeout))
	defer cancel()
	encrypted, _ := c.resources()
	for _, resource := range encrypted {
		example := schema.ParseGroupResource(strings.ReplaceAll(resource, "*", "any")) // the name may have wildcards
		for {
			value, err := r.Encrypt(ctx, example)
			if err == nil && strings.HasPrefix(string(value), prefix) {
				break
			}
			if reconcile.Pause(ctx, pollInterval); ctx.Err() != nil {
				return fmt.Errorf("wait for the new key to be used: %w", errors.Join(context.Cause(ctx), err))
			}
		}
	}
	return nil
}
