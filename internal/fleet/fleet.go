package fleet

import (
	"context"
	"fmt"
	"log/slog"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"

	"kube-hyper-mini.io/kube-hyper-mini/internal/reconcile"
)

const (
	// lifetime of a key that is not renewed: a killed server counts for this time, and
	// a paused server still counts.
	lifetime = time.Minute
	// renewal is the time between two renewals.
	renewal = lifetime / 4
	// timeout bounds one renewal.
	timeout = 10 * time.Second
	// leaveTimeout bounds the removal of the key at the end. The key expires by itself.
	leaveTimeout = 2 * time.Second
)

// Member is this server as one of those that share an etcd. It is safe for concurrent
// use.
type Member struct {
	client *kubernetes.Client
	prefix string // of the keys of all members
	log    *slog.Logger

	key      atomic.Pointer[string] // "" at first
	revision int64                  // of the key; for the goroutine of Run
}

// New returns this server as a member of those on the etcd of client with the objects below
// prefix. Run registers it.
func New(client *clientv3.Client, prefix string, log *slog.Logger) *Member {
	m := &Member{client: kubernetesClient(client), prefix: path.Join("/kube-hyper-mini/servers", prefix) + "/", log: log}
	m.key.Store(new(string))
	return m
}

// Run is that of a [lifecycle.Part]. It registers this server, which is ready then and may
// read from etcd, and keeps it registered until ctx ends. End ctx when the server has
// stopped serving.
func (m *Member) Run(ctx context.Context, ready func()) error {
	if err := m.renew(ctx); err != nil {
		return fmt.Errorf("register this server in etcd: %w", err)
	}
	ready()
	for {
		if reconcile.Pause(ctx, renewal); ctx.Err() != nil {
			m.leave(context.WithoutCancel(ctx))
			return nil
		}
		if err := m.renew(ctx); err != nil && ctx.Err() == nil {
			m.log.Warn("renewing this server's key in etcd failed, trying again", "error", err)
		}
	}
}

// kubernetesClient has the operations of kube-apiserver's storage.
func kubernetesClient(client *clientv3.Client) *kubernetes.Client {
	own := *client
	k := &kubernetes.Client{Client: &own}
	k.Kubernetes = k
	return k
}

// Alone reports whether no other server is registered at this moment. It is a
// linearizable read: a server that registers later reads a state of etcd that is not
// older.
func (m *Member) Alone(ctx context.Context) (bool, error) {
	before := *m.key.Load()
	list, err := m.client.Kubernetes.List(ctx, m.prefix, kubernetes.ListOptions{})
	if err != nil {
		return false, fmt.Errorf("count the servers in etcd: %w", err)
	}
	after := *m.key.Load() // a renewal may have replaced it
	for _, kv := range list.Kvs {
		if key := string(kv.Key); key != before && key != after && !nested(key, m.prefix) {
			return false, nil
		}
	}
	return true, nil
}

// nested reports whether a key is of a longer prefix of objects, as those of /a/b are below
// those of /a. Names of keys have no slash.
func nested(key, prefix string) bool {
	return strings.Contains(strings.TrimPrefix(key, prefix), "/")
}

// leave removes this server's key. If etcd cannot be reached the key expires by itself.
func (m *Member) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	if _, err := m.client.Kubernetes.OptimisticDelete(ctx, *m.key.Load(), m.revision,
		kubernetes.DeleteOptions{GetOnFailure: true}); err != nil {
		m.log.Debug("the key of this server was not removed from etcd and will expire", "key", *m.key.Load(), "error", err)
	}
}

// renew puts the key on a new lease. kine does not renew leases. It is called by one
// goroutine at a time.
func (m *Member) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	lease, err := m.client.Grant(ctx, int64(lifetime.Seconds()))
	if err != nil {
		return fmt.Errorf("make a lease: %w", err)
	}
	written := false
	if m.revision != 0 {
		if written, err = m.put(ctx, lease.ID, kubernetes.PutOptions{GetOnFailure: true}); err != nil {
			return err
		}
	}
	if !written {
		// The key is new, has expired, or was written by an attempt whose response was
		// lost. Another name is new in any case.
		key := m.prefix + uuid.NewString()
		m.key.Store(&key)
		m.revision = 0
		written, err = m.put(ctx, lease.ID, kubernetes.PutOptions{})
	}
	if err == nil && !written {
		err = fmt.Errorf("put %s: it exists", *m.key.Load())
	}
	return err
}

// put writes the key if its revision is the last one of this member. The options are
// kube-apiserver's for creations and updates: kine supports no others.
func (m *Member) put(ctx context.Context, lease clientv3.LeaseID, options kubernetes.PutOptions) (bool, error) {
	options.LeaseID = lease
	put, err := m.client.Kubernetes.OptimisticPut(ctx, *m.key.Load(), []byte("running"), m.revision, options)
	if err != nil {
		return false, fmt.Errorf("put %s: %w", *m.key.Load(), err)
	}
	if put.Succeeded {
		m.revision = put.Revision
	}
	return put.Succeeded, nil
}
