package fleet

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/google/uuid"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.etcd.io/etcd/client/v3/kubernetes"

	upstream "kube-hyper-mini.io/kube-hyper-mini/internal/upstream/etcd"
)

const (
	// electionTTL in seconds is how long a server that was killed stays elected.
	electionTTL = 10
	// resignTimeout bounds the end of a term. Its lease expires by itself.
	resignTimeout = 2 * time.Second
)

// Election elects one of the servers of an etcd. It needs an etcd that renews leases,
// which kine does not. It is safe for concurrent use.
type Election struct {
	client   *clientv3.Client
	prefix   string // of the candidates' keys
	identity string // key
}

// NewElection returns the election for the purpose among the servers with the objects
// below prefix.
func NewElection(client *clientv3.Client, purpose, prefix string) *Election {
	return &Election{
		client:   client,
		prefix:   path.Join("/kube-hyper-mini/elections", purpose, component(prefix)),
		identity: path.Join("/kube-hyper-mini/identity", prefix),
	}
}

// component returns a prefix as one component of a key. Otherwise the candidates of /a/b
// would be among those of /a.
func component(prefix string) string {
	name := strings.Trim(prefix, "/")
	if name == "" {
		name = "/"
	}
	return url.PathEscape(name)
}

// Identity returns a name that all servers of the election have in common, and those
// of other etcd clusters do not. A cluster that is restored from a snapshot with
// other members has another one.
func (e *Election) Identity(ctx context.Context) (string, error) {
	_, err := kubernetesClient(e.client).Kubernetes.OptimisticPut(ctx, e.identity, []byte(uuid.NewString()), 0, kubernetes.PutOptions{})
	if err != nil {
		return "", fmt.Errorf("put %s: %w", e.identity, err)
	}
	response, err := e.client.Get(ctx, e.identity)
	if err != nil {
		return "", fmt.Errorf("get %s: %w", e.identity, err)
	}
	if len(response.Kvs) == 0 {
		return "", fmt.Errorf("get %s: it was removed", e.identity)
	}
	return fmt.Sprintf("etcd-%s-%x", response.Kvs[0].Value, response.Header.ClusterId), nil
}

// Leader returns the text of the elected candidate; empty if there is none.
func (e *Election) Leader(ctx context.Context) (string, error) {
	elected, err := upstream.ElectedCandidate(ctx, e.client, e.prefix)
	if err != nil {
		return "", fmt.Errorf("read which server is elected: %w", err)
	}
	return string(elected), nil
}

// Contested reports whether more than one server takes part in the election.
func (e *Election) Contested(ctx context.Context) (bool, error) {
	count, err := upstream.CountCandidates(ctx, e.client, e.prefix)
	if err != nil {
		return false, fmt.Errorf("count the servers that take part in the election: %w", err)
	}
	return count > 1, nil
}

// ErrLost means that another server may be elected.
var ErrLost = errors.New("another server may be elected")

// Term is the time in which this server is elected. The nil Term has no end.
type Term struct {
	session  *concurrency.Session
	election *concurrency.Election
	client   *clientv3.Client
	end      func() // cancels what the session waits for
}

// Campaign returns when this server is elected; candidate describes it. The caller
// ends the term.
func (e *Election) Campaign(ctx context.Context, candidate string) (*Term, error) {
	living, end := context.WithCancel(context.WithoutCancel(ctx)) // a term outlives ctx, until its End
	starting := context.AfterFunc(ctx, end)
	session, err := concurrency.NewSession(e.client, concurrency.WithTTL(electionTTL), concurrency.WithContext(living))
	starting()
	if err != nil {
		end()
		return nil, fmt.Errorf("make a lease for the election: %w", err)
	}
	term := &Term{session, concurrency.NewElection(session, e.prefix), e.client, end}
	err = term.campaign(ctx, candidate)
	if err == nil && session.Ctx().Err() != nil { // which the library does not check
		err = errors.New("the lease has expired")
	}
	if err != nil {
		term.End()
		return nil, fmt.Errorf("take part in the election: %w", err)
	}
	return term, nil
}

// campaign returns when the session is elected, its lease has expired or ctx has ended.
func (t *Term) campaign(ctx context.Context, candidate string) error {
	waiting, cancel := context.WithCancel(t.session.Ctx())
	defer cancel()
	elected := make(chan error, 1)
	go func() { elected <- t.election.Campaign(waiting, candidate) }()
	select {
	case err := <-elected:
		return err
	case <-ctx.Done():
	}
	cancel() // it removes its key, for which etcd must answer
	select {
	case <-elected:
	case <-time.After(resignTimeout): // it ends when the client is closed
	}
	return context.Cause(ctx)
}

// Lost is closed when the lease has not been renewed in time: another server may be
// elected.
func (t *Term) Lost() <-chan struct{} {
	if t == nil {
		return nil
	}
	return t.session.Done()
}

// While returns a context that ends with ctx, and when the term is lost. The caller calls
// stop.
func (t *Term) While(ctx context.Context) (working context.Context, stop func()) {
	working, cancel := context.WithCancelCause(ctx)
	if t == nil {
		return working, func() { cancel(nil) }
	}
	lost := context.AfterFunc(t.session.Ctx(), func() { cancel(ErrLost) })
	return working, func() { lost(); cancel(nil) }
}

// Check asks etcd whether this server is elected. It returns ErrLost if it is not, which
// may be before [Term.Lost] reports it.
func (t *Term) Check(ctx context.Context) error {
	if t == nil {
		return nil
	}
	response, err := t.client.Get(ctx, t.election.Key())
	if err != nil {
		return fmt.Errorf("check that this server is elected: %w", err)
	}
	if len(response.Kvs) == 0 || response.Kvs[0].CreateRevision != t.election.Rev() {
		return ErrLost
	}
	return nil
}

// End lets the next server be elected.
func (t *Term) End() {
	if t == nil {
		return
	}
	defer t.end()
	timer := time.AfterFunc(resignTimeout, t.end)
	defer timer.Stop()
	_ = t.session.Close() // the lease expires by itself
}
