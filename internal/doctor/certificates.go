package doctor

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"kube-hyper-mini.io/kube-hyper-mini/internal/pki"
)

// expiryWarning is the remaining validity below which a certificate is a risk. The server renews
// its own certificates when a third of their validity of a year is left.
const expiryWarning = 30 * 24 * time.Hour

// rotateKinds maps authorities and the key of tokens to the argument of `certs rotate`.
var rotateKinds = map[string]string{pki.ServerCA: "server", pki.ClientCA: "client", pki.FrontProxyCA: "front-proxy",
	pki.ServiceAccount: "service-account"}

// certificates checks the certificates and keys of the data directory.
func (d *directory) certificates(add func(Finding)) error {
	list, err := d.config.Certificates()
	if err != nil {
		add(Finding{Severity: Failure, Object: filepath.Join(d.config.DataDir, "pki"), Problem: err.Error(),
			Remedy: d.recovery()})
		return nil
	}
	d.missing(add, list)
	for _, entry := range list {
		d.expiry(add, entry)
	}
	d.pair(add, d.config.Serving.CertFile, d.config.Serving.KeyFile, "replace serving.certFile and serving.keyFile; "+
		"a running server reads them again")
	d.pair(add, d.config.External.CertFile, d.config.External.KeyFile, "replace etcd.external.certFile and "+
		"etcd.external.keyFile; a running server reads them at its next connection to etcd")
	return nil
}

func (d *directory) certificate(name string) string {
	return filepath.Join(d.config.DataDir, "pki", name+".crt")
}

// missing reports authorities and keys without which the server does not start.
func (d *directory) missing(add func(Finding), list []pki.Entry) {
	has := func(name string) bool {
		return slices.ContainsFunc(list, func(e pki.Entry) bool { return e.Name == name })
	}
	var names []string
	for _, name := range []string{pki.ServerCA, pki.ClientCA, pki.FrontProxyCA} {
		if !has(name) && !d.interrupted() {
			names = append(names, d.certificate(name))
		}
	}
	if !has(pki.ServiceAccount) && !d.interrupted() {
		names = append(names, filepath.Join(d.config.DataDir, "pki", pki.ServiceAccount+".key"))
	}
	if len(names) == 0 {
		return
	}
	add(Finding{
		Severity: Failure, Object: filepath.Join(d.config.DataDir, "pki"),
		Problem: "these files are missing: " + strings.Join(names, ", "),
		Remedy: "put them back from a backup; or have new ones made, with which all kubeconfigs and tokens become " +
			"invalid: " + program + " server --new-identity" + d.named(),
	})
}

// life reports whether a certificate has expired, soon will or is not valid yet.
func life(now, from, until time.Time) (severity Severity, problem string) {
	switch {
	case now.Before(from):
		return Failure, fmt.Sprintf("it is not valid before %s, and the clock says %s",
			from.Local().Format(time.DateTime), now.Local().Format(time.DateTime))
	case now.After(until):
		return Failure, "it expired at " + until.Local().Format(time.DateTime)
	case now.Add(expiryWarning).After(until):
		return Risk, "it expires at " + until.Local().Format(time.DateTime)
	}
	return "", ""
}

// expiry reports a certificate that has expired or soon will.
func (d *directory) expiry(add func(Finding), entry pki.Entry) {
	severity, problem := life(d.now(), entry.From, entry.Until)
	replaced := entry.State == pki.Revoked || !entry.TrustedUntil.IsZero() || entry.TrustedOnly // or being replaced
	if entry.Until.IsZero() || severity == "" || replaced {
		return
	}
	f := Finding{Severity: severity, Object: d.certificate(entry.Name), Problem: problem}
	kind, authority := rotateKinds[entry.Name]
	rotate := program + " certs rotate " + kind + d.named()
	switch {
	case entry.State == pki.NotValidYet:
		f.Remedy = "correct the clock (timedatectl set-ntp true); if it is right now and was ahead when the " +
			"certificate was made, start the server again: it signs certificates again, and the error for an " +
			"authority has the command that replaces it"
	case authority && severity == Failure:
		f.Remedy = "stop the server and have a new authority made; all clients then need new kubeconfigs (" + program +
			" kubeconfig" + d.named() + ")"
		f.Commands = []string{rotate + " --overlap 0s"}
	case authority:
		f.Remedy = "replace the authority while clients keep working; give them the new kubeconfigs during the overlap"
		f.Commands = []string{rotate}
	case d.Running:
		f.Remedy = "the running server should have renewed it: its log says why it could not; place a new one if its " +
			"authority's key is elsewhere"
	default:
		f.Remedy = "start the server, which renews it, or place a new one if its authority's key is elsewhere; " +
			"clients with a copy of the old one need a new kubeconfig"
	}
	add(f)
}

// pair checks a certificate that the configuration names, if it does, and its key.
func (d *directory) pair(add func(Finding), certFile, keyFile, remedy string) {
	if certFile == "" {
		return
	}
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	f := Finding{Severity: Failure, Object: certFile, Remedy: remedy}
	var leaf *x509.Certificate
	if err == nil {
		leaf, err = x509.ParseCertificate(pair.Certificate[0])
	}
	if err != nil {
		f.Problem = err.Error()
	} else if f.Severity, f.Problem = life(d.now(), leaf.NotBefore, leaf.NotAfter); f.Severity == "" {
		return
	}
	add(f)
}
