package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/identity"
	"kube-hyper-mini.io/kube-hyper-mini/internal/pki"
)

// certificatesPath is the path that rotates and revokes for a POST request and returns
// the changes.
const certificatesPath = "/kube-hyper-mini/certificates"

// CertificateChange is a change of the certificates and keys of a server.
type CertificateChange struct {
	// Rotate is one of [pki.Kinds], or empty.
	Rotate string
	// Finish only ends the overlap.
	Finish bool
	// Overlap is the time for which the old one stays trusted.
	Overlap time.Duration
	// RevokeAdmin refuses the administrator's certificates and makes a new one.
	RevokeAdmin bool
}

// CertificatesChanged is the result of a [CertificateChange].
type CertificatesChanged struct {
	Changes []pki.Change `json:"changes"`
	// Until is when the overlap ends; zero if there is none.
	Until time.Time `json:"until,omitzero"`
}

// errNotAlone is the error of a rotation that other servers would not follow.
var errNotAlone = errors.New("several servers use this etcd, or may, and all must have the same authorities and " +
	"keys: stop the others, rotate on the one that runs, copy its pki directory to the others, and start them")

// Certificates changes the certificates and keys of a server, running or stopped.
type Certificates struct {
	Identity *identity.Identity
	// Alone reports whether no other server uses the same store at this moment.
	Alone func(context.Context) (bool, error)
	// ReloadClientCAs makes the API server trust the client CAs in the file. It is nil of a
	// stopped server, whose next start reads all files.
	ReloadClientCAs func(context.Context) error
}

// ServeHTTP implements [http.Handler] for certificatesPath.
func (c *Certificates) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	change, err := parseCertificateChange(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	done, err := c.Change(r.Context(), change)
	c.Identity.LogChanges(done.Changes)
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(done) // the client may have disconnected
}

// Change applies the change to the certificates and keys, as far as it comes.
func (c *Certificates) Change(ctx context.Context, change CertificateChange) (*CertificatesChanged, error) {
	done := &CertificatesChanged{}
	err := c.apply(ctx, change, done)
	if err != nil {
		err = c.Identity.Explain(err)
	}
	return done, err
}

func (c *Certificates) apply(ctx context.Context, change CertificateChange, done *CertificatesChanged) error {
	store := c.Identity.Certificates()
	add := func(changes []pki.Change, err error) error {
		done.Changes = append(done.Changes, changes...)
		return errors.Join(err, c.Identity.Follow())
	}
	switch {
	case change.RevokeAdmin:
		return add(store.RevokeAdmin())
	case change.Finish:
		return add(store.Finish(change.Rotate))
	}
	if alone, err := c.Alone(ctx); err != nil || !alone {
		return cmp.Or(err, errNotAlone)
	}
	if err := add(store.Prepare(change.Rotate)); err != nil {
		return err
	}
	if c.ReloadClientCAs != nil {
		if err := c.ReloadClientCAs(ctx); err != nil {
			return fmt.Errorf("the new authority is in the file and does not sign yet: %w; run the command again", err)
		}
	}
	if err := add(store.Switch(change.Rotate, change.Overlap)); err != nil {
		return err
	}
	done.Until = time.Now().Add(change.Overlap)
	return nil
}

func (c CertificateChange) query() url.Values {
	return url.Values{
		"rotate": {c.Rotate}, "finish": {strconv.FormatBool(c.Finish)},
		"overlap": {c.Overlap.String()}, "revokeAdmin": {strconv.FormatBool(c.RevokeAdmin)},
	}
}

func parseCertificateChange(query url.Values) (CertificateChange, error) {
	overlap, err := time.ParseDuration(query.Get("overlap"))
	if err != nil || overlap < 0 {
		return CertificateChange{}, fmt.Errorf("overlap %q is not a duration", query.Get("overlap"))
	}
	return CertificateChange{
		Rotate: query.Get("rotate"), Finish: query.Get("finish") == "true",
		Overlap: overlap, RevokeAdmin: query.Get("revokeAdmin") == "true",
	}, nil
}

// ChangeCertificates applies the change to the server of the kubeconfig.
func ChangeCertificates(ctx context.Context, kubeconfig []byte,
	change CertificateChange) (*CertificatesChanged, error) {
	done := &CertificatesChanged{}
	if err := postJSON(ctx, kubeconfig, certificatesPath+"?"+change.query().Encode(), done); err != nil {
		return nil, err
	}
	return done, nil
}
