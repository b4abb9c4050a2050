package config

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// MinQuota is the smallest quota of a database, in bytes: the room for the API server's own
// objects and a compaction.
const MinQuota = 64 << 20

// Validate checks the values and the files that they name. It returns joined
// FieldErrors, or nil.
func (c *ServerConfiguration) Validate() error {
	var errs []error
	fail := func(path, format string, args ...any) {
		errs = append(errs, &FieldError{Path: path, Message: fmt.Sprintf(format, args...)})
	}
	c.validateServing(fail)
	c.validateServingFiles(fail)
	c.validateEtcd(fail)
	c.Manifests.validate(fail)
	c.Backup.validate(fail)
	c.Journal.validate(c.DataDir, fail)
	if c.Journal.RestoreIfEmpty && len(c.Backup.EncryptTo) > 0 {
		fail("journal.restoreIfEmpty", "needs a journal that is not encrypted (backup.encryptTo): "+
			"the server has no identity to read it; restore by hand")
	}
	if j := &c.Journal; j.Destination == "" && (j.RestoreIfEmpty || j.StopIfSuperseded && c.Planes.Journal == "") {
		fail("journal.destination", "is empty: journal.restoreIfEmpty and journal.stopIfSuperseded need a journal")
	}
	c.validateServiceEndpoints(fail)
	c.ServiceEndpointPolicy.validate(fail)
	c.Limits.validate(fail)
	c.validatePlanes(fail)
	if mode, err := strconv.ParseUint(string(c.Kubeconfig.Mode), 8, 32); err != nil || mode > 0o777 {
		fail("kubeconfig.mode", "%q is not a file mode; write octal digits in quotes, as \"0600\" or \"0640\"",
			c.Kubeconfig.Mode)
	} else if mode&0o400 == 0 {
		fail("kubeconfig.mode", "%q leaves the file unreadable for its owner; use \"0600\" or \"0640\"", c.Kubeconfig.Mode)
	}
	if c.APIs.Profile != ProfileGeneric && c.APIs.Profile != ProfileKubernetes {
		fail("apis.profile", "%q is not a profile; allowed: %s, %s", c.APIs.Profile, ProfileGeneric, ProfileKubernetes)
	}
	if c.Logging.Format != "text" && c.Logging.Format != "json" {
		fail("logging.format", "%q is not supported; allowed: text, json", c.Logging.Format)
	}
	if c.Logging.Verbosity < 0 || c.Logging.Verbosity > 10 {
		fail("logging.verbosity", "%d is out of range; allowed: 0 to 10", c.Logging.Verbosity)
	}
	if audit := c.APIServer.Audit; audit.LogPath != "" && audit.PolicyFile == "" {
		fail("apiServer.audit.logPath", "needs apiServer.audit.policyFile: nothing is audited without a policy")
	}
	for i, resource := range c.APIServer.Encryption.Resources {
		if resource == "" || strings.ContainsAny(resource, "/ ,") {
			fail(fmt.Sprintf("apiServer.encryption.resources[%d]", i),
				"%q is not a resource; write \"secrets\" or \"resource.group\"", resource)
		}
	}
	c.validatePaths(fail)
	return errors.Join(errs...)
}

// validatePaths checks the form of all paths, and that the files which the server reads can be
// read.
func (c *ServerConfiguration) validatePaths(fail func(path, format string, args ...any)) {
	for _, field := range c.Fields() {
		err := CheckPath(field.Value)
		if err == nil && field.input && field.Value != "" {
			var f *os.File
			if f, err = os.Open(field.Value); err == nil {
				_ = f.Close() // opened only to check that it can be read
			}
		}
		if err != nil {
			fail(field.Path, "%v", err)
		}
	}
}

// maxStopGrace is upstream's default timeout of requests: none lasts longer.
const maxStopGrace = time.Minute

func (c *ServerConfiguration) validateServing(fail func(path, format string, args ...any)) {
	if net.ParseIP(c.Serving.BindAddress) == nil {
		fail("serving.bindAddress", "%q is not an IP address; use 127.0.0.1 for this machine only, 0.0.0.0 or :: "+
			"for every interface", c.Serving.BindAddress)
	}
	if c.Serving.Port < 0 || c.Serving.Port > 65535 {
		fail("serving.port", "%d is not a port; allowed: 1 to 65535, or 0 for a free one", c.Serving.Port)
	}
	if host := c.Serving.ExternalHost; host != "" && !isHost(host) {
		fail("serving.externalHost", "%q is neither a DNS name nor an IP address", host)
	}
	c.Serving.validateExternalURL(fail)
	if grace := c.Serving.StopGrace.Duration; grace < 0 || grace > maxStopGrace {
		fail("serving.stopGrace", "%s is out of range; allowed: 0s to %s", grace, maxStopGrace)
	}
	for i, san := range c.Serving.ExtraSANs {
		if err := CheckSAN(san); err != nil {
			fail(fmt.Sprintf("serving.extraSANs[%d]", i), "%v", err)
		}
	}
}

// validateServingFiles checks the certificate that is served instead of one that
// the server makes.
func (c *ServerConfiguration) validateServingFiles(fail func(path, format string, args ...any)) {
	serving := c.Serving
	switch {
	case (serving.CertFile == "") != (serving.KeyFile == ""):
		fail("serving.certFile", "certFile and keyFile go together; set both or none")
	case serving.CertFile == "" && serving.CAFile != "":
		fail("serving.caFile", "is what clients verify serving.certFile with; set that, "+
			"or place the authority as <dataDir>/pki/server-ca.crt and .key")
	case serving.CertFile != "":
		if _, err := tls.LoadX509KeyPair(serving.CertFile, serving.KeyFile); err != nil && !errors.Is(err, os.ErrNotExist) {
			fail("serving.certFile", "%v", err)
		}
	}
}

func isPort(text string) bool {
	port, err := strconv.ParseUint(text, 10, 16)
	return err == nil && port > 0
}

func isHost(host string) bool {
	return net.ParseIP(host) != nil || len(validation.IsDNS1123Subdomain(strings.ToLower(host))) == 0
}

func (c *ServerConfiguration) validateEtcd(fail func(path, format string, args ...any)) {
	if quota := c.Etcd.Embedded.QuotaBackend; quota.Value() < MinQuota {
		fail("etcd.embedded.quotaBackend", "%s is too small; at least 64Mi, 8Gi is the default", quota.String())
	}
	c.Etcd.Embedded.Defragment.validate(fail)
	if host, port, err := net.SplitHostPort(c.Etcd.Embedded.Listen); err != nil ||
		net.ParseIP(host) == nil || !isPort(port) {
		fail("etcd.embedded.listen", "%q is not an IP address with a port; write 127.0.0.1:2379, "+
			"or 0.0.0.0:2379 for every interface", c.Etcd.Embedded.Listen)
	}
	if server := c.ControllerManager.Server; server != "" {
		if u, err := url.Parse(server); err != nil || u.Host == "" || u.Scheme != "https" {
			fail("controllerManager.server", "%q is not the address of an API server; write https://host:6443", server)
		}
	}
	external := c.Etcd.External
	for i, endpoint := range external.Endpoints {
		if err := checkEtcdEndpoint(endpoint); err != nil {
			fail(fmt.Sprintf("etcd.external.endpoints[%d]", i), "%v", err)
		}
	}
	if (external.CertFile == "") != (external.KeyFile == "") {
		fail("etcd.external.certFile", "certFile and keyFile go together; set both or none")
	}
	if !strings.HasPrefix(external.Prefix, "/") || filepath.ToSlash(external.Prefix) == "/" {
		fail("etcd.external.prefix", "%q is not a key prefix; write /registry or another path below /", external.Prefix)
	}
}

// checkEtcdEndpoint returns an error for a URL that etcd's client does not use as it is
// written. The error has no password.
func checkEtcdEndpoint(endpoint string) error {
	u, err := url.Parse(endpoint)
	switch {
	case strings.Contains(endpoint, "@"):
		return errors.New("has a user, which is not sent to etcd; write https://host:2379, " +
			"and name a client certificate with etcd.external.certFile")
	case err != nil || u.Hostname() == "" || (u.Scheme != "http" && u.Scheme != "https"):
		return fmt.Errorf("%q is not an etcd endpoint; write https://host:2379", endpoint)
	case strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" || strings.ContainsAny(endpoint, "?#"):
		return fmt.Errorf("%q has more than a host and a port, which is not sent to etcd; write %s://%s, "+
			"and set etcd.external.prefix for other keys", endpoint, u.Scheme, u.Host)
	case !isPort(u.Port()):
		return fmt.Errorf("%q has no port from 1 to 65535, without which no connection is made; write %s://%s", endpoint,
			u.Scheme, net.JoinHostPort(u.Hostname(), "2379"))
	}
	return nil
}

// Suggest returns `; did you mean "x"?` for the candidate that is at most two
// edits away, or empty.
func Suggest(name string, candidates []string) string {
	best, distance := "", 3
	for _, candidate := range candidates {
		if d := editDistance(strings.ToLower(name), strings.ToLower(candidate)); d < distance {
			best, distance = candidate, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// editDistance is the Levenshtein distance.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		previous := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := previous
			if a[i-1] != b[j-1] {
				cost = 1 + min(previous, row[j], row[j-1])
			}
			previous, row[j] = row[j], cost
		}
	}
	return row[len(b)]
}
