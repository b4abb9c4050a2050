package apiserver

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	controlplane "k8s.io/kubernetes/pkg/controlplane/apiserver"

	"kube-hyper-mini.io/kube-hyper-mini/internal/logging"
)

// certificateFiles are the files of client CAs and serving certificates, which are read again
// when [trustedRequests] looks at them, and by [Server.ReloadCertificates]. Upstream runs a
// watch of the kernel for each, with a stack of 128 kB and one of the 128 instances of inotify
// that Linux gives a user: in a process with 20 servers that is a twentieth of its memory, and
// all instances.
type certificateFiles struct {
	mu     sync.Mutex // held while they are read: an older content must not replace a newer one
	files  []certificateFile
	logged logging.Changes
	log    *slog.Logger
}

// certificateFile is a content of upstream's that RunOnce reads again.
type certificateFile interface {
	dynamiccertificates.ControllerRunner
	Name() string
}

// take makes certificateFiles reload the certificates of c and native. It hides their Run from the API
// server, which would watch each file.
func (f *certificateFiles) take(c *genericapiserver.Config, native *controlplane.Config) {
	for _, authorities := range []*dynamiccertificates.CAContentProvider{&c.SecureServing.ClientCA,
		&native.ClusterAuthenticationInfo.ClientCA, &native.ClusterAuthenticationInfo.RequestHeaderCA} {
		if f.add(*authorities) {
			*authorities = struct {
				dynamiccertificates.CAContentProvider
			}{*authorities}
		}
	}
	if f.add(c.SecureServing.Cert) {
		c.SecureServing.Cert = struct {
			dynamiccertificates.CertKeyContentProvider
		}{c.SecureServing.Cert}
	}
}

// add adds a content if it is that of files.
func (f *certificateFiles) add(content any) bool {
	file, isFile := content.(certificateFile)
	if isFile {
		f.files = append(f.files, file)
		ended, end := context.WithCancel(context.Background())
		end()
		file.Run(ended, 1) // ends the goroutines of its queue, which RunOnce does not use
	}
	return isFile
}

// ReloadCertificates reads the files of authorities and serving certificates again, which else
// happens some time after a change. The error is that of the authorities: a serving certificate
// that cannot be read stays in use.
func (s *Server) ReloadCertificates(ctx context.Context) error { return s.files.read(ctx) }

// read reads the files again. What was read before stays in use when one cannot be read, which is
// logged; the error is that of the authorities.
func (f *certificateFiles) read(ctx context.Context) (failed error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, file := range f.files {
		err := file.RunOnce(ctx)
		if _, serving := file.(dynamiccertificates.CertKeyContentProvider); !serving {
			failed = errors.Join(failed, err)
		}
		if err == nil {
			f.logged.Forget(file.Name())
		} else if f.logged.Changed(file.Name(), err.Error()) {
			f.log.Warn("reading a certificate again failed, trying again", "file", file.Name(), "error", err)
		}
	}
	return failed
}
