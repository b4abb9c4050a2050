package apiserver

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/util/cert"
	controlplane "k8s.io/kubernetes/pkg/controlplane/apiserver"
)

// TestCertificateFilesAreReadAgain: a replaced file is used; one that cannot be used is reported
// once, and what was read before stays in use.
func TestCertificateFilesAreReadAgain(t *testing.T) {
	authority := func(host string) []byte {
		certificate, _, err := cert.GenerateSelfSignedCertKey(host, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return certificate
	}
	before, after := authority("before"), authority("after")
	file := filepath.Join(t.TempDir(), "ca.crt")
	write := func(content []byte) {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(before)
	clients, err := dynamiccertificates.NewDynamicCAContentFromFile("client-ca", file)
	if err != nil {
		t.Fatal(err)
	}
	c, native := &genericapiserver.Config{SecureServing: &genericapiserver.SecureServingInfo{ClientCA: clients}}, &controlplane.Config{}
	var log strings.Builder
	files := &certificateFiles{log: slog.New(slog.NewTextHandler(&log, nil))}
	files.take(c, native)
	if _, runs := c.SecureServing.ClientCA.(dynamiccertificates.ControllerRunner); runs {
		t.Error("the API server watches the file")
	}
	for _, step := range []struct {
		content, want []byte
		logged        int
	}{
		{before, before, 0}, {[]byte("no certificate"), before, 1}, {[]byte("no certificate"), before, 1}, {after, after, 1},
	} {
		write(step.content)
		if err := files.read(t.Context()); (err == nil) != (len(step.content) > 20) {
			t.Errorf("after %.20q: %v", step.content, err)
		}
		if got := c.SecureServing.ClientCA.CurrentCABundleContent(); !bytes.Equal(got, step.want) {
			t.Errorf("after %.20q the authorities are\n%s", step.content, got)
		}
		if got := strings.Count(log.String(), "\n"); got != step.logged {
			t.Errorf("after %.20q the log has %d lines:\n%s", step.content, got, log.String())
		}
	}
}
