package identity

import (
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"k8s.io/client-go/util/cert"

	"kube-hyper-mini.io/kube-hyper-mini/config"
	"kube-hyper-mini.io/kube-hyper-mini/internal/backup"
	"kube-hyper-mini.io/kube-hyper-mini/internal/datadir"
	"kube-hyper-mini.io/kube-hyper-mini/internal/pki"
)

// ensureKeys opens the store of certificates and keys, creates missing ones in a new
// directory and renews those that are due.
func (i *Identity) ensureKeys(ctx context.Context) error {
	store, err := OpenStore(&i.config.Serving, i.config.Dir.Join("pki"))
	if err != nil {
		return err
	}
	i.certificates = store
	if i.config.EtcdHost != "" {
		etcdNames, err := servingNames(&config.Serving{BindAddress: i.config.EtcdHost,
			ExternalHost: i.config.Serving.ExternalHost, ExtraSANs: i.config.Serving.ExtraSANs})
		if err != nil {
			return err
		}
		i.certificates.AddEtcd(etcdNames)
	}
	ensure := i.certificates.Ensure
	if previous := i.config.Dir.Previous; previous == nil || previous.FirstStart == datadir.Copied || i.config.AllowNew {
		if err := i.checkNew(ctx); err != nil {
			return err
		}
		ensure = i.certificates.Create
	}
	changes, err := ensure()
	if err != nil {
		return i.Explain(err)
	}
	if i.config.Dir.Previous != nil {
		i.LogChanges(changes)
	}
	if err := i.checkServing(); err != nil {
		return err
	}
	return i.readTokenKeys()
}

// OpenStore returns the store of certificates and keys in dir that the
// configuration describes. It reads nothing.
func OpenStore(serving *config.Serving, dir string) (*pki.Store, error) {
	names, err := servingNames(serving)
	if err != nil {
		return nil, err
	}
	store := pki.New(dir, names)
	if serving.CertFile != "" {
		store.ServeElsewhere(serving.CAFile)
	}
	return store, nil
}

// Explain adds the remedy to the error of a used directory that has lost its
// identity.
func (i *Identity) Explain(err error) error {
	var missing *pki.MissingError
	if !errors.As(err, &missing) {
		return err
	}
	from := "a backup"
	path, _, latestErr := backup.Latest(i.config.BackupDir, backup.ReasonManual,
		backup.ReasonScheduled, backup.ReasonUpgrade)
	if latestErr == nil && path != "" {
		from = "a backup (the newest is " + path + ")"
	}
	return fmt.Errorf("the data directory %s was used before, and %s missing: clients and tokens rely on them. "+
		"Restore pki from %s, for example with tar -xzf FILE -C %s pki; or start with --new-identity, after which "+
		"all clients need new kubeconfigs and tokens",
		i.config.Dir.Path(), listed(missing.Files), from, i.config.Dir.Path())
}

func listed(files []string) string {
	if len(files) == 1 {
		return files[0] + " is"
	}
	return strings.Join(files, ", ") + " are"
}

// LogChanges logs the certificates and keys that were created or renewed, and why.
func (i *Identity) LogChanges(changes []pki.Change) {
	for _, change := range changes {
		i.config.Log.Info("certificates renewed", "name", change.Name, "reason", change.Reason)
	}
}

// renewed handles the result of a round of renewals.
func (i *Identity) renewed(changes []pki.Change, err error) {
	if err == nil && len(changes) == 0 && !i.followFailed.Load() {
		return
	}
	i.LogChanges(changes)
	if err != nil {
		i.config.Log.Error("renewing certificates failed, trying again", "error", i.Explain(err))
	}
	if err := i.Follow(); err == nil {
		i.logged.Forget("follow")
	} else if i.logged.Changed("follow", err.Error()) {
		i.config.Log.Error("using the changed certificates and keys failed, trying again", "error", i.Explain(err))
	}
}

// Follow applies changes to the parts of this process that do not watch the files.
func (i *Identity) Follow() error {
	i.following.Lock()
	defer i.following.Unlock()
	err := errors.Join(i.readTokenKeys(), i.WriteKubeconfig())
	i.followFailed.Store(err != nil)
	return err
}

// readTokenKeys uses the keys of the data directory also if a file of TokenKeyFiles cannot be
// read: one that was retired must not stay trusted.
func (i *Identity) readTokenKeys() error {
	keys, err := i.certificates.TokenKeys()
	if err != nil {
		return i.Explain(err)
	}
	verify := append([]crypto.PublicKey{}, keys.Verify...)
	for _, file := range i.config.TokenKeyFiles {
		more, readErr := pki.ReadPublicKeys(file)
		if err = errors.Join(err, readErr); readErr == nil {
			i.fileKeys[file] = more
		}
		verify = append(verify, i.fileKeys[file]...)
	}
	if i.config.UseTokenKeys != nil {
		err = errors.Join(err, i.config.UseTokenKeys(keys.Signer, verify))
	}
	return err
}

// checkServing returns an error for a configured certificate that clients with the
// kubeconfig would refuse.
func (i *Identity) checkServing() error {
	serving := &i.config.Serving
	if serving.CertFile == "" || i.config.URL == "" {
		return nil
	}
	chain, err := cert.CertsFromFile(serving.CertFile)
	if err != nil {
		return err
	}
	server, err := url.Parse(i.config.URL)
	if err != nil {
		return fmt.Errorf("read the server's URL: %w", err)
	}
	if err := chain[0].VerifyHostname(server.Hostname()); err != nil {
		return &config.FieldError{Path: "serving.certFile", Message: fmt.Sprintf("%v: set serving.externalHost to a "+
			"name in the certificate", err)}
	}
	roots, err := cert.NewPool(i.certificates.ServerCA())
	if err != nil {
		return err
	}
	options := x509.VerifyOptions{Roots: roots, Intermediates: x509.NewCertPool(), CurrentTime: time.Now()}
	for _, crt := range chain[1:] {
		options.Intermediates.AddCert(crt)
	}
	_, err = chain[0].Verify(options)
	if invalid := (x509.CertificateInvalidError{}); errors.As(err, &invalid) && invalid.Reason == x509.Expired {
		return &config.FieldError{Path: "serving.certFile", Message: fmt.Sprintf("%v: correct the clock, or replace "+
			"the certificate or its authority", err)}
	}
	if err != nil {
		return &config.FieldError{Path: "serving.certFile", Message: fmt.Sprintf("clients would verify it with %s "+
			"and refuse it: %v; name its authorities with serving.caFile", i.certificates.ServerCA(), err)}
	}
	return nil
}
