package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
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
	Rotate string `json:"rotate"`
	// Finish only ends the overlap.
	Finish bool `json:"finish"`
	// Overlap is the time for which the old one stays trusted.
	Overlap time.Duration `json:"overlap"`
	// RevokeAdmin refuses the administrator's certificates and makes a new one.
	RevokeAdmin bool `json:"revokeAdmin"`
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
	// Reload makes the API server use the certificates in the files; an error if it cannot read the
	// client CAs. It is nil of a stopped server, whose next start reads them.
	Reload func(context.Context) error
	// Record has the journal of a running server record what was changed.
	Record func(context.Context) error
}

// ServeHTTP implements [http.Handler] for certificatesPath.
func (c *Certificates) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var change CertificateChange
	if err := json.Unmarshal([]byte(r.URL.Query().Get("change")), &change); err != nil || change.Overlap < 0 {
		http.Error(w, "the parameter \"change\" is not a change of certificates, or its overlap is negative",
			http.StatusBadRequest)
		return
	}
	done, err := c.Change(r.Context(), change)
	c.Identity.LogChanges(done.Changes)
	if err = errors.Join(err, c.Record(r.Context())); err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(done) // the client may have disconnected
}

// Change applies the change to the certificates and keys, as far as it comes.
func (c *Certificates) Change(ctx context.Context, change CertificateChange) (*CertificatesChanged, error) {
	done := &CertificatesChanged{}
	return done, c.Identity.Explain(c.apply(ctx, change, done))
}

func (c *Certificates) apply(ctx context.Context, change CertificateChange, done *CertificatesChanged) error {
	store := c.Identity.Certificates()
	follow := func(changes []pki.Change, err error) error {
		done.Changes = append(done.Changes, changes...)
		return errors.Join(err, c.Identity.Follow())
	}
	reload := func(err error) error {
		if c.Reload == nil {
			return err
		}
		if reloadErr := c.Reload(ctx); reloadErr != nil {
			err = errors.Join(err, fmt.Errorf("the server cannot read the authorities of clients, and tries again: %w; "+
				"\"kube-hyper-mini certs list\" shows whether to run the command again", reloadErr))
		}
		return err
	}
	switch {
	case change.RevokeAdmin:
		return follow(store.RevokeAdmin())
	case change.Finish:
		return reload(follow(store.Finish(change.Rotate)))
	}
	if alone, err := c.Alone(ctx); err != nil || !alone {
		return cmp.Or(err, errNotAlone)
	}
	if err := reload(follow(store.Prepare(change.Rotate))); err != nil {
		return err
	}
	if err := reload(follow(store.Switch(change.Rotate, change.Overlap))); err != nil {
		return err
	}
	done.Until = time.Now().Add(change.Overlap)
	return nil
}

// ChangeCertificates applies the change to the server of the kubeconfig.
func ChangeCertificates(ctx context.Context, kubeconfig []byte,
	change CertificateChange) (*CertificatesChanged, error) {
	parameter, err := json.Marshal(change)
	if err != nil {
		return nil, fmt.Errorf("encode the change of certificates: %w", err)
	}
	done, path := &CertificatesChanged{}, certificatesPath+"?change="+url.QueryEscape(string(parameter))
	if err := postJSON(ctx, kubeconfig, path, done); err != nil {
		return nil, err
	}
	return done, nil
}
